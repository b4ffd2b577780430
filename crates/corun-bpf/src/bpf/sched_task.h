/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A task's record, and how its running time is paid for.
 */
#ifndef CORUN_SCHED_TASK_H
#define CORUN_SCHED_TASK_H

/* A task's record, alive as long as the task. */
struct task {
	u64 runtime_ns; /* of its life, when it was accounted last */
	u64 paid; /* virtual time its cell has paid ahead for it */
	u64 share; /* at which it pays */
	u64 slice_min_ns;
	u64 slice_max_ns;
	u64 delay_ns;
	u64 generation; /* of the knobs it has read */
	u32 cgroup_cell;
	u32 cell;
	u32 weight; /* what it counts in its cell while runnable; 0 while it is not */
	u32 queued; /* 1 + the cell in whose queues it waits; 0 when it does not */
	u32 flags;
	u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task);
} tasks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, struct knob);
} knobs SEC(".maps");

static __always_inline struct task *task_of(struct task_struct *p)
{
	struct task *t = bpf_task_storage_get(&tasks, p, 0, 0);

	if (!t)
		__sync_fetch_and_add(&losses.tasks, 1);
	return t;
}

static __always_inline u64 queue_of(u32 cell, u32 llc)
{
	return (u64)cell * LLCS + llc + 1;
}

/*
 * The weight of its nice value; a kernel thread's is at least that of nice 0. Such a thread wants little, and
 * others wait for what it holds: next to six tenants, khugepaged, with nice 19, waited for more than a second
 * at a time.
 */
static __always_inline u32 weight_of(struct task_struct *p)
{
	u32 weight = SCX(p).weight;

	return (p->flags & PF_KTHREAD) && weight < CORUN_DEFAULT_WEIGHT ? CORUN_DEFAULT_WEIGHT : weight;
}

static __always_inline u64 task_share(struct task_struct *p)
{
	return weight_of(p) * CORUN_SHARE_UNIT;
}

static __always_inline u64 runtime_of(struct task_struct *p)
{
	return ((struct task_struct___scx *)p)->se.sum_exec_runtime;
}

static __always_inline void move_to_cell(struct task *t, u32 cell)
{
	u32 from = t->cell;

	if (cell == from || cell >= CELLS)
		return;
	t->cell = cell;
	__sync_fetch_and_add(&cell_at(cell)->members, 1);
	__sync_fetch_and_sub(&cell_at(from)->members, 1);
	if (t->weight) {
		join(cell, t->weight);
		leave(from, t->weight);
	}
}

/*
 * The cell of a task: `own` if it has one, otherwise its cgroup's. Protected tasks belong to the root, like
 * the kernel's threads. The root is never parked, so none of them ever waits in a queue that no CPU examines.
 */
static __always_inline u32 home_of(struct task *t, u32 own)
{
	return t->flags & PROTECTED ? 0 : t->flags & OWN_CELL ? own : t->cgroup_cell;
}

static __always_inline void take_knobs(struct task *t, struct knob *k)
{
	t->slice_min_ns = k->slice_min_ns;
	t->slice_max_ns = k->slice_max_ns;
	t->delay_ns = k->delay_ns;
	t->flags = k->flags;
}

/* Takes over user space's settings for a task since its last visit. */
static __always_inline void read_knobs(struct task_struct *p, struct task *t)
{
	u64 generation = control.generation;
	u32 tid = p->pid, cell;
	struct knob *k;

	if (t->generation == generation)
		return;
	t->generation = generation;
	k = bpf_map_lookup_elem(&knobs, &tid);
	if (!k)
		return;
	take_knobs(t, k);
	cell = home_of(t, k->cell);
	if (cell != t->cell) {
		u64 from = cell_at(t->cell)->task_vtime, to = cell_at(cell)->task_vtime;

		task_set_vtime(p, corun_vtime_move(SCX(p).dsq_vtime, from, to));
		move_to_cell(t, cell);
	}
}

/* Whether it may run on one CPU only. */
static __always_inline bool is_bound(struct task_struct *p)
{
	return ((struct task_struct___scx *)p)->nr_cpus_allowed == 1;
}

static __always_inline u64 draw_slice(struct task *t)
{
	return corun_slice_ns(t->slice_min_ns, t->slice_max_ns, default_slice_ns, bpf_get_prandom_u32());
}

static __always_inline void unqueue(struct task *t)
{
	if (t->queued)
		__sync_fetch_and_sub(&cell_at(t->queued - 1)->queued, 1);
	t->queued = 0;
}

/* Pays for the time that a running task has used since it was last accounted, and returns that time. */
static __always_inline u64 settle(struct task_struct *p, struct task *t)
{
	struct cell *c = cell_at(t->cell);
	u64 runtime = runtime_of(p), ran = runtime - t->runtime_ns;

	t->runtime_ns = runtime;
	advance(c, corun_vtime_of(ran, t->share) - t->paid);
	t->paid = 0;
	task_set_vtime(p, corun_vtime_ran(SCX(p).dsq_vtime, ran, task_share(p)));
	__sync_fetch_and_add(&c->ran_ns, ran);
	return ran;
}

/*
 * Its cell pays for a slice that begins now on this CPU.
 *
 * A task that goes on because nobody else wants the CPU is brought up to the others first, except for a
 * slice's worth: the task in its cell and the cell among cells. Otherwise a task that cannot use its share
 * falls ever further behind one that has used the surplus. When it can, it has both CPUs until that is made
 * up for. The kernel's threads waited for half a minute then, and the kernel removed the scheduler.
 */
static __always_inline void begin_slice(struct task_struct *p, struct task *t, s32 cpu, u64 slice)
{
	struct cpu *r = cpu_at(cpu);
	struct cell *c = cell_at(t->cell);
	u64 now = bpf_ktime_get_ns();
	u32 key = cpu;

	t->share = share_of(t->cell);
	catch_up(c, default_slice_ns, t->share);
	task_set_vtime(p, corun_vtime_join(SCX(p).dsq_vtime, c->task_vtime, default_slice_ns, task_share(p)));
	t->runtime_ns = runtime_of(p);
	t->paid = corun_vtime_of(slice, t->share);
	r->started_ns = now;
	r->cell = t->cell;
	r->vtime = c->vtime;
	r->share = t->share;
	r->task_vtime = SCX(p).dsq_vtime;
	r->task_share = task_share(p);
	vtime_now = corun_vtime_zero(vtime_now, c->vtime);
	c->task_vtime = corun_vtime_zero(c->task_vtime, r->task_vtime);
	advance(c, t->paid);
	r->slice_end_ns = 0;
	if (t->slice_min_ns) {
		struct alarm *a = bpf_map_lookup_elem(&slice_alarms, &key);

		r->slice_end_ns = now + slice;
		if (a)
			bpf_timer_start(&a->timer, slice, BPF_F_TIMER_CPU_PIN);
	}
}

#endif
