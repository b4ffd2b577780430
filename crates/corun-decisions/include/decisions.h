/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/*
 * What is decided at a context switch: pure C, no state, no loop, no division by an unchecked number, nothing but
 * 64-bit integers. clang compiles this file into the sched_ext scheduler, cc into the modelled machine, so that what
 * is simulated is what runs in the kernel. Everything else is a policy's, which acts once an epoch in user space.
 *
 * | question | answered by | from |
 * | --- | --- | --- |
 * | how long may it run? | corun_slice_ns | PACT'16 section 5.2 (differential scheduling): a random interval each time |
 * | does the waking task take the CPU, and when? | corun_wants_cpu, corun_preempt_due_ns | PACT'16 section 5.1 (delayed preemption) |
 * | may this task run at all? | corun_may_run | Controlled Contention section III.B (slots), with a lease |
 * | whose turn is it? | corun_share, corun_vtime_* | weighted fair queueing, with cgroup v2's cpu.weight |
 *
 * Units: times are nanoseconds on one monotonic clock; 0 is never a valid absolute time and stands for "none". Weights
 * are those of cpu.weight: 1..10000, 100 is the default. A share is an effective weight in 1/1024 of that unit. Virtual
 * times may wrap; compare them with corun_before only.
 *
 * Limits: the caller keeps all state (virtual times, timers, leases); callers that race on it get one of the
 * answers that some order would have given.
 */
#ifndef CORUN_DECISIONS_H
#define CORUN_DECISIONS_H

typedef unsigned long long corun_u64;
typedef long long corun_s64;
typedef unsigned int corun_u32;

/* Define it empty to get these as ordinary functions, for callers that are not C. */
#ifndef CORUN_DECISION
#define CORUN_DECISION static inline __attribute__((always_inline, unused))
#endif

/* The bounds that the kernel's own sched_setattr puts on a slice. */
#define CORUN_LEAST_SLICE_NS 100000ULL
#define CORUN_MOST_SLICE_NS 100000000ULL

#define CORUN_LEAST_WEIGHT 1ULL
#define CORUN_DEFAULT_WEIGHT 100ULL
#define CORUN_MOST_WEIGHT 10000ULL
#define CORUN_SHARE_UNIT 1024ULL
/* The share of a task that is alone in a tenant of default weight. */
#define CORUN_DEFAULT_SHARE (CORUN_DEFAULT_WEIGHT * CORUN_SHARE_UNIT)

/* Longer stretches (2.4 hours) count as this long: their product with a share unit must fit. */
#define CORUN_MOST_RAN_NS (1ULL << 43)

CORUN_DECISION corun_u64 corun_clamp(corun_u64 value, corun_u64 least, corun_u64 most)
{
	return value < least ? least : value > most ? most : value;
}

/* Whether virtual time (or clock) a lies before b, also across a wrap. */
CORUN_DECISION int corun_before(corun_u64 a, corun_u64 b)
{
	return (corun_s64)(a - b) < 0;
}

/*
 * How long a task may run now. `least` and `most` are its own bounds and 0 where it has none; equal bounds are a
 * fixed slice, others a uniform draw by `random`, 32 fresh random bits. Drawn anew at every dispatch on every CPU, so
 * CPUs fall out of step while each has the same mean.
 */
CORUN_DECISION corun_u64 corun_slice_ns(corun_u64 least, corun_u64 most, corun_u64 fallback, corun_u32 random)
{
	if (!least || !most)
		return corun_clamp(fallback, CORUN_LEAST_SLICE_NS, CORUN_MOST_SLICE_NS);
	least = corun_clamp(least, CORUN_LEAST_SLICE_NS, CORUN_MOST_SLICE_NS);
	most = corun_clamp(most, least, CORUN_MOST_SLICE_NS);
	return least + (((most - least + 1) * random) >> 32);
}

/*
 * When a waking task that wants a busy CPU gets it: a time, `now` itself for "at once". `delay` is the task's
 * preemption delay; `armed` is when the CPU's one-shot timer is due already, 0 when it is not armed. The earlier of the
 * two holds. The caller disarms the timer when the running task leaves of its own accord.
 */
CORUN_DECISION corun_u64 corun_preempt_due_ns(corun_u64 now, corun_u64 delay, corun_u64 armed)
{
	corun_u64 due = now + delay;

	return armed && corun_before(armed, due) ? (corun_before(armed, now) ? now : armed) : due;
}

/*
 * Whether a task may be dispatched. Its tenant is parked until `parked_until` (0: not parked). Parking is a lease: a
 * controller that stopped renewing it, for whatever reason, stops nobody for longer. Exempt tasks (kernel threads,
 * protected tenants, tasks that are about to die) always run.
 */
CORUN_DECISION int corun_may_run(corun_u64 now, corun_u64 parked_until, corun_u32 exempt)
{
	return exempt || !parked_until || !corun_before(now, parked_until);
}

/*
 * A task's effective weight on its CPU, in 1/1024 of a cpu.weight: its tenant's weight, split among the tenant's
 * runnable tasks in proportion to their own. `load` is the sum of those tasks' weights, this one's included. It is
 * what the kernel's group scheduling gives on every CPU (calc_group_shares), without the hierarchy.
 */
CORUN_DECISION corun_u64 corun_share(corun_u64 tenant_weight, corun_u64 task_weight, corun_u64 load)
{
	corun_u64 share;

	tenant_weight = corun_clamp(tenant_weight, CORUN_LEAST_WEIGHT, CORUN_MOST_WEIGHT);
	task_weight = corun_clamp(task_weight, CORUN_LEAST_WEIGHT, CORUN_MOST_WEIGHT);
	if (load < task_weight)
		load = task_weight;
	share = tenant_weight * task_weight * CORUN_SHARE_UNIT / load;
	return share ? share : 1;
}

/* How far a virtual time advances while its owner runs for `ran`: at the default share, as far as the clock. */
CORUN_DECISION corun_u64 corun_vtime_of(corun_u64 ran, corun_u64 share)
{
	ran = corun_clamp(ran, 0, CORUN_MOST_RAN_NS);
	return ran * CORUN_DEFAULT_SHARE / (share ? share : 1);
}

/* The virtual time after running for `ran`. */
CORUN_DECISION corun_u64 corun_vtime_ran(corun_u64 vtime, corun_u64 ran, corun_u64 share)
{
	return vtime + corun_vtime_of(ran, share);
}

/*
 * The virtual time with which a task joins a queue at virtual time `zero`, after sleeping or after having been parked:
 * its own, but no more than `credit` of running behind. Without the bound, a long sleep would buy the CPU for as long.
 */
CORUN_DECISION corun_u64 corun_vtime_join(corun_u64 vtime, corun_u64 zero, corun_u64 credit, corun_u64 share)
{
	corun_u64 earliest = zero - corun_vtime_of(credit, share);

	return corun_before(vtime, earliest) ? earliest : vtime;
}

/* The virtual time of a task that goes from a queue at virtual time `from` to one at `to`. */
CORUN_DECISION corun_u64 corun_vtime_move(corun_u64 vtime, corun_u64 from, corun_u64 to)
{
	return vtime - from + to;
}

/* A queue's virtual time never goes back: it is that of the task it dispatches, if later. */
CORUN_DECISION corun_u64 corun_vtime_zero(corun_u64 zero, corun_u64 dispatched)
{
	return corun_before(zero, dispatched) ? dispatched : zero;
}

/*
 * Whether a waking task should take the CPU from the running one: it lies behind by more than `granularity` of its own
 * running. `current` is the running task's virtual time up to now (see corun_vtime_ran).
 */
CORUN_DECISION int corun_wants_cpu(corun_u64 waking, corun_u64 current, corun_u64 granularity, corun_u64 share)
{
	return corun_before(waking + corun_vtime_of(granularity, share), current);
}

#endif
