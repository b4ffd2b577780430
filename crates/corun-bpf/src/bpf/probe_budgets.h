/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Budgets: what keeps a runnable task from running although nobody has its CPU. There are three: the quota of
 * its cgroup, the runtime of its real-time group, and that of a deadline task.
 *
 * Method    Every budget has a clock that runs while it is used up. A wait is throttled for as long as the clocks of the
 *           task's budgets ran meanwhile. The kernel has such a clock for every queue of a cgroup's tasks on a CPU. For the
 *           other budgets it has only a flag, and the time at which its timer will refill the budget. The probe keeps
 *           their clocks: a task that leaves a CPU with the flag set starts the clock, for all that share the budget.
 * Which     The budgets of the class in which the task runs, according to `prio`, whatever has been lent to it.
 * Limits    Before Linux 6.6 the kernel has no clock for a quota. The probe keeps it, and assumes that it runs until one
 *           of the queue's tasks runs again. Time that the kernel takes from real-time tasks for others (its fair server,
 *           since 6.12) is no budget: some task has the CPU then.
 */
#ifndef CORUN_PROBE_BUDGETS_H
#define CORUN_PROBE_BUDGETS_H

#define RT_LEVELS 6 /* of nested real-time groups */

/* The clock of a budget; `since_ns` is 0 while it stands. */
struct budget {
	u64 sum_ns;
	u64 since_ns;
	u64 until_ns;
};

/* By the address of the queue, or the tid of a deadline task. The least used entry makes room. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, u64);
	__type(value, struct budget);
} budgets SEC(".maps");

u64 budgets_met = 0; /* whether any budget has been seen used up: before that, no clock is read */

/* The value of the kernel's clock of the queue's quota. */
static __always_inline u64 quota_clock(struct cfs_rq *q)
{
	u64 sum = q->throttled_clock_self_time, since = q->throttled_clock_self;

	return unlikely(since) ? sum + (q->rq->clock - since) : sum;
}

/* The value at `at` of a clock that the probe keeps. `used_up` is the kernel's present answer, `until` the
 * time of the next refill. */
__noinline u64 kept_clock(u64 key, u64 at, u32 used_up, u64 until)
{
	struct budget *b = bpf_map_lookup_elem(&budgets, &key);
	u64 to;

	if (!b) {
		struct budget fresh = { .since_ns = at, .until_ns = until };

		if (used_up && !bpf_map_update_elem(&budgets, &key, &fresh, BPF_NOEXIST_))
			budgets_met = 1;
		return 0;
	}
	if (used_up) {
		if (!b->since_ns)
			b->since_ns = at;
		b->until_ns = until;
	}
	to = at < b->until_ns ? at : b->until_ns;
	if (!b->since_ns || to < b->since_ns)
		to = b->since_ns;
	/* A window is closed with the task's next event. The clock is read as it was at the edge, and has run on
	 * until now. */
	if (!used_up && at != control.edge_ns) {
		b->sum_ns += to - b->since_ns;
		b->since_ns = 0;
		return b->sum_ns;
	}
	return b->sum_ns + (to - b->since_ns);
}

/* The time at which a timer on the monotonic clock fires next. */
static __always_inline u64 fires_at(struct hrtimer *timer)
{
	if (!bpf_core_field_exists(struct hrtimer, node.expires))
		return FOREVER;
	return BPF_CORE_READ(timer, node.expires);
}

/*
 * The time at which a real-time queue's runtime will be refilled: each time its timer fires, it gets its
 * runtime back, and it goes on if it has used less than that.
 */
static __always_inline u64 filled_at(struct rt_rq *q)
{
	struct task_group *group;
	struct rt_bandwidth *b;
	u64 used, runtime, until;

	if (!bpf_core_field_exists(struct rt_rq, tg) || !bpf_core_field_exists(struct task_group, rt_bandwidth))
		return FOREVER;
	group = BPF_CORE_READ(q, tg);
	b = __builtin_preserve_access_index(&group->rt_bandwidth);
	used = BPF_CORE_READ(q, rt_time);
	runtime = BPF_CORE_READ(q, rt_runtime);
	until = fires_at(__builtin_preserve_access_index(&b->rt_period_timer));
	if (runtime && used >= 2 * runtime && until != FOREVER)
		until += (used / runtime - 1) * BPF_CORE_READ(b, rt_period);
	return until;
}

/* The budget of a real-time queue: the value of its clock or, if that is not requested, whether it is used
 * up. */
static __always_inline u64 real_time_budget(struct rt_rq *q, u64 at, bool want_clock)
{
	bool used_up = BPF_CORE_READ(q, rt_throttled);

	if (!want_clock)
		return used_up;
	return used_up || budgets_met ? kept_clock((u64)q, at, used_up, used_up ? filled_at(q) : 0) : 0;
}

/*
 * The budgets of a real-time task, summed: that of its group and those above. A kernel without such groups
 * has one for every CPU. Its entities do not even have the link to the one above. So the two paths have to be
 * separate: a compiler looks up a field before the loop that reads it.
 */
static __always_inline u64 real_time_budgets(struct task_struct *p, u64 at, bool want_clock)
{
	struct sched_rt_entity *e = __builtin_preserve_access_index(&p->rt);
	u64 sum = 0;

	if (!bpf_core_field_exists(struct rt_rq, rt_throttled))
		return 0;
	if (!bpf_core_field_exists(struct sched_rt_entity, rt_rq)) {
		struct rq *rq = BPF_CORE_READ(p, se.cfs_rq, rq);

		return real_time_budget(__builtin_preserve_access_index(&rq->rt), at, want_clock);
	}
	for (int i = 0; e && i < RT_LEVELS; i++) {
		sum += real_time_budget(BPF_CORE_READ(e, rt_rq), at, want_clock);
		e = BPF_CORE_READ(e, parent);
	}
	return sum;
}

/* The value of the clock of a real-time or deadline task's budgets. */
__noinline u64 real_time_clock(u64 task, u64 at)
{
	struct task_struct *p = (void *)task;
	bool used_up;
	u64 until;

	if ((s32)BPF_CORE_READ(p, prio) >= 0)
		return real_time_budgets(p, at, true);
	used_up = BPF_CORE_READ_BITFIELD_PROBED(p, dl.dl_throttled);
	until = used_up ? fires_at(__builtin_preserve_access_index(&p->dl.dl_timer)) : 0;
	return used_up || budgets_met ? kept_clock(BPF_CORE_READ(p, pid), at, used_up, until) : 0;
}

/* The reason for its wait. A deadline task that yields has finished its work in this period: that is a
 * sleep. */
__noinline u32 real_time_wait_state(u64 task)
{
	struct task_struct *p = (void *)task;

	if ((s32)BPF_CORE_READ(p, prio) >= 0)
		return real_time_budgets(p, 0, false) ? THROTTLED : WAIT;
	if (!BPF_CORE_READ_BITFIELD_PROBED(p, dl.dl_throttled))
		return WAIT;
	return BPF_CORE_READ_BITFIELD_PROBED(p, dl.dl_yielded) ? BLOCK_SLEEP : THROTTLED;
}

/* Whether the quota of a queue is used up. */
static __always_inline bool is_stopped(struct cfs_rq *q)
{
	if (bpf_core_field_exists(struct cfs_rq, throttled_clock_self))
		return q->throttled_clock_self;
	return bpf_core_field_exists(struct cfs_rq, throttle_count) && q->throttle_count;
}

/* The values of the clocks of all of a task's budgets, summed. */
static __noinline u64 throttle_clock(struct task_struct *p, u64 at)
{
	struct cfs_rq *q;

	if (p->prio < MAX_RT_PRIO)
		return real_time_clock(address_of(p), at);
	q = p->se.cfs_rq;
	if (!q)
		return 0;
	if (bpf_core_field_exists(struct cfs_rq, throttled_clock_self_time))
		return quota_clock(q);
	return kept_clock(address_of(q), at, is_stopped(q), FOREVER);
}

/* A wait begins in which the clocks matter. */
static __noinline u32 begin_watched_wait(struct task_rec *t, struct task_struct *p, u64 now)
{
	struct cfs_rq *q = p->se.cfs_rq;
	u32 state = p->prio < MAX_RT_PRIO ? real_time_wait_state(address_of(p)) : q && is_stopped(q) ? THROTTLED : WAIT;

	if (state == WAIT && !budgets_met)
		return WAIT;
	if (!budgets_met)
		budgets_met = 1;
	t->throttled_at = throttle_clock(p, now);
	return state;
}

/*
 * The reason why a runnable task does not run: it waits for a CPU, or for its budget. Until a budget was
 * first seen used up, only whether one is used up is read.
 */
static __always_inline u32 begin_wait(struct task_rec *t, struct task_struct *p, u64 now)
{
	struct cfs_rq *q = p->se.cfs_rq;

	t->throttled_at = CLOCK_UNKNOWN;
	if (likely(!budgets_met && p->prio >= MAX_RT_PRIO && q && !is_stopped(q)))
		return WAIT;
	return begin_watched_wait(t, p, now);
}

/* How much of the wait [from, to) the task's budgets were used up. */
static __noinline u64 take_throttled(struct task_rec *t, struct task_struct *p, u64 from, u64 to)
{
	u64 clock = throttle_clock(p, to), throttled = t->throttled_at == CLOCK_UNKNOWN ? 0 : clock - t->throttled_at;

	if ((s64)throttled < 0) /* another queue's clock: the task was moved, or runs in another class */
		throttled = 0;
	t->throttled_at = clock;
	if (throttled > to - from) {
		t->throttled_at -= throttled - (to - from);
		throttled = to - from;
	}
	t->cur.ns[THROTTLED] += throttled;
	return throttled;
}

static __always_inline bool is_waiting(u32 state)
{
	return state == WAIT || state == THROTTLED;
}

/* How far the monotonic clock is ahead of a run queue's. That clock may be old, so the least measured value
 * is right. */
static __always_inline u64 lead_of(struct cfs_rq *q, struct cpu_rec *c)
{
	u64 lead = bpf_ktime_get_ns() - q->rq->clock;

	return c && c->lead_at_ns && (s64)(c->lead_ns - lead) < 0 ? c->lead_ns : lead;
}

/*
 * How much of an open wait the quota has taken up to `edge`; CLOCK_UNKNOWN if the kernel is changing the
 * clock at this moment, which takes two steps.
 */
static __always_inline u64 taken_of_open_wait(struct task_rec *t, u32 state, struct cfs_rq *q, u64 edge, u64 lead)
{
	u64 since = q->throttled_clock_self, sum, taken;

	barrier();
	sum = q->throttled_clock_self_time;
	barrier();
	if (q->throttled_clock_self != since)
		return CLOCK_UNKNOWN;
	taken = sum - t->throttled_at;
	/* The quota has been used up since before the wait began. */
	if (since && state == THROTTLED && (s64)taken <= 0)
		return edge - t->since_ns;
	if ((s64)taken < 0 || (state == THROTTLED && !taken))
		return CLOCK_UNKNOWN;
	if (since && (s64)(edge - lead - since) > 0)
		taken += edge - lead - since;
	return taken;
}

/*
 * A window has been closed while a task waits, and no event reports when its quota is refilled; the kernel's
 * clock does. Its handlers may run meanwhile, so only fields are written that belong to nobody else. If a
 * handler closes the window first, the record has the sums of the edge, and these fields are not read.
 */
static __noinline void look_at_open_wait(struct task_rec *t, struct task_struct *p, u64 edge)
{
	struct cfs_rq *q = p->se.cfs_rq;
	u32 state = t->state == NEVER ? t->guess : t->state;
	u64 taken = CLOCK_UNKNOWN, lead;

	if (!is_waiting(state) || t->throttled_at == CLOCK_UNKNOWN || t->since_ns >= edge || p->prio < MAX_RT_PRIO || !q ||
	    !bpf_core_field_exists(struct cfs_rq, throttled_clock_self_time))
		return;
	lead = lead_of(q, cpu_rec(t->cpu));
	for (int i = 0; i < 3 && taken == CLOCK_UNKNOWN; i++)
		taken = taken_of_open_wait(t, state, q, edge, lead);
	if (taken == CLOCK_UNKNOWN)
		return;
	t->open_throttled_ns = taken;
	barrier();
	t->open_edge_ns = edge;
}

/*
 * A waiting task is in this queue from now on; its own handlers may run meanwhile. `fresh` is a CPU's clock
 * that the kernel has just read: if the new CPU is idle, its own clock stands still.
 */
static __always_inline void wait_in(struct task_rec *t, struct cfs_rq *q, u64 fresh)
{
	u64 sum, since, clock;

	t->throttled_at = CLOCK_UNKNOWN;
	if (!q || !bpf_core_field_exists(struct cfs_rq, throttled_clock_self_time)) {
		__sync_val_compare_and_swap(&t->state, THROTTLED, WAIT);
		return;
	}
	sum = BPF_CORE_READ(q, throttled_clock_self_time);
	since = BPF_CORE_READ(q, throttled_clock_self);
	if (!budgets_met && !since)
		return;
	budgets_met = 1;
	clock = BPF_CORE_READ(q, rq, clock);
	if (clock < fresh)
		clock = fresh;
	t->throttled_at = since ? sum + (clock - since) : sum;
	__sync_val_compare_and_swap(&t->state, since ? WAIT : THROTTLED, since ? THROTTLED : WAIT);
}

/*
 * A waiting task is about to be moved to another CPU. A deadline task takes its budget along. If the kernel
 * keeps queues in something other than an array of pointers, the entry there does not name the group, and the
 * clock is unknown.
 */
static __noinline void wait_on(struct task_rec *t, struct task_struct *p, u32 cpu)
{
	struct cfs_rq **all, *there = NULL;
	struct task_group *group;

	if (p->prio < 0)
		return;
	if (p->prio >= MAX_RT_PRIO && bpf_core_field_exists(struct cfs_rq, tg)) {
		group = BPF_CORE_READ(p, se.cfs_rq, tg);
		all = BPF_CORE_READ(group, cfs_rq);
		if (!all || bpf_probe_read_kernel(&there, sizeof(there), all + cpu) || BPF_CORE_READ(there, tg) != group)
			there = NULL;
	}
	wait_in(t, there, BPF_CORE_READ(p, se.cfs_rq, rq, clock));
}

/* A task was moved to another cgroup, and its queue with it. */
static __always_inline void wait_elsewhere(struct task_rec *t, struct task_struct *p)
{
	s32 prio = BPF_CORE_READ(p, prio);

	if (prio >= 0)
		wait_in(t, prio < MAX_RT_PRIO ? NULL : BPF_CORE_READ(p, se.cfs_rq), 0);
}

#endif
