/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Alarms: events at a time rather than at a tick.
 *
 * Each CPU has one for the end of the running task's slice, and one for the earliest delayed preemption. The
 * machine has one that ends parks whose lease has expired. They fire as soft interrupts and are never
 * cancelled: setting their time to 0 disarms them.
 */
#ifndef CORUN_SCHED_ALARMS_H
#define CORUN_SCHED_ALARMS_H

struct alarm {
	struct bpf_timer timer;
};
#define ALARMS(NAME, SIZE)                                                                                    \
	struct {                                                                                              \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                             \
		__uint(max_entries, SIZE);                                                                    \
		__type(key, u32);                                                                             \
		__type(value, struct alarm);                                                                  \
	} NAME SEC(".maps")
ALARMS(slice_alarms, CPUS);
ALARMS(preempt_alarms, CPUS);
ALARMS(lease_alarm, 1);

#define LEASE_CHECK_NS 50000000ULL
#define SOON_NS 1000000ULL

static __always_inline struct cpu *cpu_at(s32 i)
{
	u64 at = (u32)i;

	asm volatile("%0 &= %1" : "+r"(at) : "i"(CPUS - 1));
	return &cpus[at];
}

static __always_inline void kick_idle(void)
{
	u32 n = scx_bpf_nr_cpu_ids(), i;

	bpf_for(i, 0, n)
		scx_bpf_kick_cpu(i, SCX_KICK_IDLE);
}

static int slice_over(void *map, u32 *key, struct alarm *a)
{
	struct cpu *r = cpu_at(*key);
	u64 end = r->slice_end_ns;

	if (!end || corun_before(bpf_ktime_get_ns(), end))
		return 0;
	r->slice_end_ns = 0;
	r->slice_ends++;
	scx_bpf_kick_cpu(*key, SCX_KICK_PREEMPT);
	return 0;
}

static int preempt_due(void *map, u32 *key, struct alarm *a)
{
	struct cpu *r = cpu_at(*key);
	u64 due = r->preempt_due_ns;

	if (!due || corun_before(bpf_ktime_get_ns(), due))
		return 0;
	r->preempt_due_ns = 0;
	r->preempts_late++;
	scx_bpf_kick_cpu(*key, SCX_KICK_PREEMPT);
	return 0;
}

/*
 * Ends parks whose lease or limit is over. Wakes idle CPUs in any case: a task may have been put into a queue
 * that a CPU found to be parked just before the park ended.
 */
static int lease_check(void *map, u32 *key, struct alarm *a)
{
	u64 now = bpf_ktime_get_ns();
	u32 i, used = cells_used;
	bool parked = false;

	bpf_for(i, 0, used) {
		struct cell *c = cell_at(i);
		u64 until = parked_until_ns(c);

		if (!until)
			continue;
		if (corun_before(now, until)) {
			parked = true;
			continue;
		}
		c->parked_since_ns = 0;
		c->expired++;
	}
	kick_idle();
	if (parked)
		bpf_timer_start(&a->timer, LEASE_CHECK_NS, 0);
	return 0;
}

static __always_inline void check_leases_in(u64 ns)
{
	u32 zero = 0;
	struct alarm *a = bpf_map_lookup_elem(&lease_alarm, &zero);

	if (a)
		bpf_timer_start(&a->timer, ns, 0);
}

/* Sets up `a = MAP[KEY]` to call CALLBACK; a macro, because the verifier wants to see the map itself. */
#define INIT_ALARM(MAP, KEY, CALLBACK)                                                                        \
	do {                                                                                                  \
		u32 key_ = KEY;                                                                               \
		struct alarm *a_ = bpf_map_lookup_elem(&MAP, &key_);                                          \
		if (a_) {                                                                                     \
			bpf_timer_init(&a_->timer, &MAP, CLOCK_MONOTONIC);                                    \
			bpf_timer_set_callback(&a_->timer, CALLBACK);                                         \
		}                                                                                             \
	} while (0)

#endif
