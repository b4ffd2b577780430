/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Records: where the sums of tasks and CPUs are kept, how to find one by its tid, and how to write it while
 * user space reads.
 */
#ifndef CORUN_PROBE_RECORDS_H
#define CORUN_PROBE_RECORDS_H

static __always_inline struct cpu_rec *cpu_rec(u32 cpu)
{
	return bpf_map_lookup_elem(&cpus, &cpu);
}

/* In place of a task's slot: no record was free when it needed one, and that has been counted. */
#define UNTRACKED 0xffffffff

static __always_inline struct task_rec *task_rec(u32 tid)
{
	u32 *slot = bpf_map_lookup_elem(&slot_of_tid, &tid);

	if (!slot || !*slot)
		return NULL;
	return bpf_map_lookup_elem(&tasks, slot);
}

/* The value of the throttle clock of the task's queue is unknown: from its next reading on, nothing is
 * counted twice. */
#define CLOCK_UNKNOWN (~0ULL)

/*
 * A fresh record for a task that has none; its slot, or 0. This is rare: at fork, where it comes `from`
 * another task, and at the first event of an older task.
 */
__noinline u32 new_slot(u64 task, struct task_rec *from)
{
	struct task_struct *p = (void *)task;
	u32 tid = BPF_CORE_READ(p, pid), slot = 0, before, *home;
	struct task_rec *t;

	home = bpf_map_lookup_elem(&slot_of_tid, &tid);
	if (!home)
		goto full;
	if (bpf_map_pop_elem(&free_slots, &slot)) {
		if (next_slot >= max_tasks)
			goto full;
		slot = __sync_fetch_and_add(&next_slot, 1);
	}
	t = bpf_map_lookup_elem(&tasks, &slot);
	if (!t)
		goto full;
	__builtin_memset(t, 0, sizeof(*t));
	t->serial = __sync_fetch_and_add(&next_serial, 1);
	t->tgid = BPF_CORE_READ(p, tgid);
	t->flags = BPF_CORE_READ(p, flags) & PF_KTHREAD ? KTHREAD : 0;
	t->cpu = BPF_CORE_READ(p, thread_info.cpu);
	/* A task that did not exist at the first recording is new, or was hidden from it: its account begins now. */
	t->since_ns = t->began_ns = t->born_ns = control.stocked ? bpf_ktime_get_ns() : control.start_ns;
	begin_group(t, p, from);
	t->throttled_at = CLOCK_UNKNOWN;
	bpf_probe_read_kernel(t->comm, sizeof(t->comm), &p->comm);
	barrier();
	t->tid = tid; /* by which user space knows that the rest is there */
	before = *home == UNTRACKED ? UNTRACKED : 0;
	if (__sync_val_compare_and_swap(home, before, slot) != before) { /* the task iterator and an event met */
		t->tid = 0;
		bpf_map_push_elem(&free_slots, &slot, 0);
		return *home;
	}
	return slot;
full:
	if (!home || !__sync_val_compare_and_swap(home, 0, UNTRACKED))
		__sync_fetch_and_add(&losses.untracked_tasks, 1);
	return 0;
}

static __noinline struct task_rec *new_task_rec(struct task_struct *p, struct task_rec *from)
{
	u32 slot = new_slot(address_of(p), from);

	return slot ? bpf_map_lookup_elem(&tasks, &slot) : NULL;
}

/* The previous owner of this tid has ended, although nobody reported it. */
static __always_inline void forget(u32 tid)
{
	u32 *home = bpf_map_lookup_elem(&slot_of_tid, &tid), slot;
	struct task_rec *t;

	if (!home || !*home)
		return;
	slot = *home;
	*home = 0;
	if (slot == UNTRACKED)
		return;
	t = bpf_map_lookup_elem(&tasks, &slot);
	if (t)
		t->tid = 0;
	bpf_map_push_elem(&free_slots, &slot, 0);
}

static __always_inline struct task_rec *task_rec_of(struct task_struct *p)
{
	struct task_rec *t = task_rec(p->pid);

	return t ? t : new_task_rec(p, NULL);
}

/* Whether the probe is watching: every program starts and stops at the same instant. */
static __always_inline bool watching(u64 now)
{
	return now >= control.start_ns && now < control.stop_ns;
}

static __always_inline void begin_write(struct task_rec *t)
{
	*(volatile u32 *)&t->seq = t->seq + 1;
	barrier();
}

static __always_inline void end_write(struct task_rec *t)
{
	barrier();
	*(volatile u32 *)&t->seq = t->seq + 1;
}

#endif
