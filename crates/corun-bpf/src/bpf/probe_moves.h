/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Moves: a task leaves its process group, its session or one of its cgroups, and with it its group. A task
 * that user space has put into a group stays there (STICKY), with all its children.
 */
#ifndef CORUN_PROBE_MOVES_H
#define CORUN_PROBE_MOVES_H

static __always_inline bool may_regroup(struct task_rec *t)
{
	return t && !(t->flags & (STICKY | KTHREAD));
}

/* The task belongs to the group of its present location. */
__noinline u32 regroup(struct task_rec *t, u64 task)
{
	struct cpu_rec *c;

	if (!t)
		return 0;
	find_group(t, (void *)task);
	c = cpu_rec(t->cpu);
	if (c && c->tid == t->tid && t->cpu == bpf_get_smp_processor_id())
		occupy(c, bpf_ktime_get_ns(), t->group);
	return 0;
}

/*
 * The same, in case it has moved without a report: no tracepoint reports setsid() and setpgid(). So this is
 * checked when a task forks, executes a program, and at its first event in a window: rarely enough to cost a
 * switch nothing.
 */
static __always_inline void look_where(struct task_rec *t, struct task_struct *p)
{
	u32 pgid;

	/* A record whose number its task has just lost, or that missed a switch, comes with another task. */
	if (!may_regroup(t) || t->tid != BPF_CORE_READ(p, pid) || BPF_CORE_READ(p, flags) & PF_EXITING)
		return;
	pgid = pgid_of(p);
	if ((pgid && pgid != t->pgid) || t->cgroups != (u64)BPF_CORE_READ(p, cgroups))
		regroup(t, address_of(p));
}

#endif
