// SPDX-License-Identifier: GPL-2.0
/*
 * The probe: where every nanosecond of every task went, and who held the CPU while it waited.
 *
 * Hooks      tp_btf sched_switch, sched_wakeup, sched_wakeup_new, sched_migrate_task, sched_process_exec, task_rename,
 *            cgroup_attach_task. iter/task after attaching, and at the end of a window with an open wait that a quota
 *            may have taken a part of. Nothing else: no fentry, no kprobe.
 *            For a trace also sched_waking and the entries and exits of interrupts; for a run log hrtimer_start as well
 *            (probe_record.h).
 * Kernel     5.18 or newer (four arguments of sched_switch), BTF, bpf_loop.
 *
 * Method
 *   Each task has one record, found by tid through two array maps (no hash, no task storage: 2 loads). The record holds
 *   its state, since when, and its accumulated sums. Every event closes one interval and opens the next, so the
 *   intervals of a task partition its life: time is conserved by construction. All events of one task happen under its
 *   run queue's lock, so its record needs no atomics; `seq` lets user space copy it.
 *
 *   Each CPU keeps a log of its occupants: (start, group), merged while the group stays the same. When a wait ends (or
 *   the waiter is moved, or a window closes), the probe walks backwards through the part of the log that the wait
 *   overlaps. It charges every nanosecond to the group that held the CPU then, which is exact over many occupants. If
 *   the log does not reach back far enough, the rest is `unattributed`.
 *
 *   Windows: user space announces an edge shortly before it comes. The first event at or after the edge closes the open
 *   interval exactly at the edge, copies the sums aside (`snap`) and goes on. A record without an event since then needs
 *   no copy: its open interval simply reaches over the edge.
 *
 *   A task's state before its first event needs no guess. If the first event is "leaves the CPU", the task ran; if it is
 *   "arrives", it waited; if it is "wakes", it was blocked. Only tasks without any event use the state read at attach.
 *
 * Limits
 *   - Some tasks' switches never reach the tracepoint (seen with threads of PID 1 in virtual machines). The next switch on
 *     that CPU reveals it (prev is not the last task seen), and the stretch between becomes UNKNOWN. After an unreported
 *     wake-up, the task counts as blocked until it runs.
 *   - Interrupts are part of the task that they interrupt, as everywhere in the kernel's own accounts.
 *   - A throttled interval counts as the first part of the wait that it lies in. A wait that is open at an edge is split
 *     by the kernel's clock of the quota. If that clock does not exist (before Linux 6.6, and for real-time and deadline
 *     tasks), the wait up to the edge counts as the state in which it began.
 *   - The v1 freezer and, since Linux 6.1, a system that suspends leave sleepers asleep without an event: they go on as
 *     blocked for their reason. A task that is stopped by a signal while it waits for a CPU waits until it has one.
 *
 * One file because it is one BPF object: every handler inlines the same functions over the same maps.
 *
 * Cost       see `make bench`. One switch and one wake-up together are 7 map look-ups, one reading of the clock and no
 *            atomics. Rare code is separate, the rest is inlined: where the kernel makes every return safe (AMD,
 *            `spec_rstack_overflow`), a call costs 10 ns. From 64 bytes of stack on, the kernel provides one from the
 *            cache.
 *
 * Loading    The kernel verifies a static function again at each call, in each state in which the call is reached. It
 *            verifies a global function once. So rare and large code is global (`__noinline` without `static`). A global
 *            function returns a number, takes a task by its address, and must expect a record that is NULL.
 */
#include "kernel_min.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "probe.h"

char LICENSE[] SEC("license") = "GPL";

#define ARRAY(NAME, VALUE, SIZE)                                                                              \
	struct {                                                                                              \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                             \
		__uint(map_flags, BPF_F_MMAPABLE);                                                            \
		__uint(max_entries, SIZE);                                                                    \
		__type(key, u32);                                                                             \
		__type(value, VALUE);                                                                         \
	} NAME SEC(".maps")

#define MOST_THREADS 65536 /* of a process that are followed into another cgroup */

/* Sizes are set by user space before loading. */
enum { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_ARRAY = 2, BPF_MAP_TYPE_LRU_HASH = 9, BPF_MAP_TYPE_STACK = 23, BPF_MAP_TYPE_RINGBUF = 27 };
enum { BPF_F_MMAPABLE = 1 << 10, BPF_RB_NO_WAKEUP = 1 };

ARRAY(slot_of_tid, u32, 32768);
ARRAY(tasks, struct task_rec, 16384);
ARRAY(cpus, struct cpu_rec, 1);
ARRAY(places, struct place, 1);
ARRAY(overflow_steal, struct pair_steal, 65536);

struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, 16384);
	__type(value, u32);
} free_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct pair);
	__type(value, u32);
} index_of_pair SEC(".maps");

/* Places of pairs that user space has given back. */
struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, 65536);
	__type(value, u32);
} free_pairs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 20);
} ended SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} trace SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} run_log SEC(".maps");

/* Fixed at load, so that what is not wanted costs nothing. */
const volatile u32 max_tasks = 16384;
const volatile u32 max_groups = 8192;
const volatile u32 max_pairs = 65536;
const volatile u32 watcher_tgid = 0; /* 0: the watcher is a task like any other */
const volatile bool want_trace = false;
const volatile bool want_waits = false; /* a trace with single waits */
const volatile bool want_record = false;
const volatile u8 block_state_of_syscall[2 * SYSCALLS] = {};
const volatile u32 places_of_setaffinity[2] = { NO_TID, NO_TID }; /* in that table */

struct control control = { .start_ns = FOREVER, .stop_ns = FOREVER };
struct losses losses = {};
u32 next_slot = 1; /* 0 means none */
u32 next_serial = 1;
u32 next_pair = 0;
u64 registers_in_stack = 0; /* how far from its beginning; 0 until stock is taken */

#include "probe_trace.h"
#include "probe_groups.h"
#include "probe_records.h"
#include "probe_culprits.h"
#include "probe_moves.h"
#include "probe_budgets.h"
#include "probe_states.h"

/* ------------------------------------------------------------------------------------------- events -- */

#include "probe_record.h"

/* The arguments of sched_switch. */
struct switch_args {
	u64 preempt;
	struct task_struct *prev;
	struct task_struct *next;
	u64 prev_state;
};

/* No room in the ring: the task's sums go to its group, so that only its own line is lost. */
__noinline u32 fold_into_group(struct task_rec *t)
{
	u32 group = t ? t->group : 0;
	struct group_rec *g = bpf_map_lookup_elem(&groups, &group);

	__sync_fetch_and_add(&losses.ended_unlisted, 1);
	if (!t || !g)
		return 0;
	__sync_fetch_and_add(&g->unlisted, 1);
	for (int i = 0; i < STATES; i++)
		__sync_fetch_and_add(&g->dead_ns[i], t->cur.ns[i]);
	for (int i = 0; i < HELD; i++)
		__sync_fetch_and_add(&g->dead_ns[STATES + i], t->cur.held_ns[i]);
	__sync_fetch_and_add(&g->dead_events[0], t->cur.blocked);
	__sync_fetch_and_add(&g->dead_events[1], t->cur.preemptions);
	__sync_fetch_and_add(&g->dead_events[2], t->cur.wakeups);
	for (int i = 0; i < 4; i++)
		__sync_fetch_and_add(&g->dead_events[3 + i], t->cur.migrations[i]);
	__sync_fetch_and_add(&g->dead_events[7], t->cur.yielded);
	for (int i = 0; i < BUCKETS; i++) {
		__sync_fetch_and_add(&g->dead_waits[i], t->lengths[i].waits);
		__sync_fetch_and_add(&g->dead_stretches[i], t->lengths[i].stretches);
	}
	for (int i = 0; i < CULPRITS; i++)
		if (t->cur.culprits[i].ns)
			charge_beyond(t, t->cur.culprits[i].group, t->cur.culprits[i].ns);
	/* Last, since what finds no room above is added to it. */
	__sync_fetch_and_add(&g->dead_unattributed_ns, t->cur.unattributed_ns);
	return 0;
}

/* The task ran for the last time: sends its record off and frees the slot. */
static __noinline void bury(struct task_struct *p, struct task_rec *t, u64 now)
{
	struct ended *e;

	e = bpf_ringbuf_reserve(&ended, sizeof(*e), 0);
	if (e) {
		e->end_ns = now;
		__builtin_memcpy(&e->rec, t, sizeof(e->rec));
		bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	} else {
		fold_into_group(t);
	}
	forget(t->tid);
}

static __always_inline void account_cpu(struct cpu_rec *c, u64 to)
{
	u64 from = c->since_ns;

	if (to <= from)
		return;
	if (unlikely(c->tid == NO_TID))
		c->cur.unknown_ns += to - from;
	else if (c->tid)
		c->cur.busy_ns += to - from;
	else
		c->cur.idle_ns += to - from;
	c->since_ns = to;
}

static __noinline void close_cpu_window(struct cpu_rec *c, u64 edge)
{
	account_cpu(c, edge);
	c->snap = c->cur;
	c->edge_ns = edge;
}

/*
 * A task other than the last one seen is leaving. The last one seen left, and this one came, at an unknown
 * time since the last reported switch. For both, that stretch is UNKNOWN, and their earlier time is
 * unchanged. The next event of the last one seen will show what it does now, as for a task without events.
 */
static __noinline void surprise(struct cpu_rec *c, u32 cpu, struct task_struct *p, struct task_rec *t, u64 now)
{
	struct task_rec *lost = c->tid ? task_rec(c->tid) : NULL;
	u64 from = c->since_ns;

	__sync_fetch_and_add(&losses.surprises, 1);
	relabel(c, GROUP_UNKNOWN);
	if (now > from) {
		c->cur.unknown_ns += now - from;
		c->since_ns = now;
	}
	if (lost && lost->state == RUN && lost->cpu == cpu) {
		begin_write(lost);
		lost->state = UNKNOWN;
		roll(lost, p, now);
		account(lost, now);
		lost->guess = BLOCK_OTHER;
		enter(lost, NEVER, now);
		end_write(lost);
	}
	if (t && t->state != RUN) {
		begin_write(t);
		first_event(t, before_first_event(t));
		roll(t, p, from);
		account_any(t, p, from);
		enter(t, UNKNOWN, from);
		end_write(t);
	}
}

static __always_inline void roll_cpu(struct cpu_rec *c, u64 now)
{
	if (unlikely(c->edge_ns != control.edge_ns && now >= control.edge_ns))
		close_cpu_window(c, control.edge_ns);
}

/* The record of the leaving task, if it is not the last one seen: this is the first switch here, or one was
 * not reported. */
static __noinline struct task_rec *leaver(struct cpu_rec *c, struct task_struct *prev, u64 now)
{
	u32 tid = prev->pid, cpu = bpf_get_smp_processor_id();
	struct task_rec *t = tid ? task_rec_of(prev) : NULL;

	if (c->tid == NO_TID) { /* prev has been running since the start */
		c->tid = tid;
		c->since_ns = control.start_ns;
		occupy(c, 0, t ? t->group : tid ? GROUP_UNKNOWN : GROUP_IDLE);
	}
	roll_cpu(c, now);
	if (c->tid != tid)
		surprise(c, cpu, prev, t, now);
	if (t)
		t->cpu = cpu;
	return t;
}

/* A task leaves the CPU; how, as in a trace_event. Values that are read late need not be kept on the stack
 * until then. */
static __always_inline u32 leave(struct switch_args *args, struct task_struct *prev, struct cpu_rec *c,
				 struct task_rec *t, u64 now)
{
	u32 prev_state, state, left;

	if (unlikely(t->group != c->group)) /* user space assigned it to another group while it ran */
		relabel(c, t->group);
	begin_write(t);
	first_event(t, RUN);
	roll(t, prev, now);
	account_likely(t, RUN, now);
	t->lengths[bucket_of(lasted(t, now))].stretches++;
	state = state_of_syscall(t, prev);
	prev_state = args->prev_state;
	/* A task that a signal keeps from going to sleep stays on the run queue. Linux 6.12 reports its intended
	 * state all the same. */
	if (args->preempt || !prev_state || unlikely(!prev->__state)) {
		if (!args->preempt && state == RUN) /* sched_yield */
			t->cur.yielded++;
		else
			t->cur.preemptions++;
		enter(t, begin_wait(t, prev, now), now);
		end_write(t);
		return 0;
	}
	state = block_state(t, prev, state, prev_state);
	left = prev_state & TASK_DEAD ? 3 : unlikely(state > BLOCK_OTHER) ? 4 : prev_state & TASK_UNINTERRUPTIBLE ? 2 : 1;
	t->cur.blocked++;
	enter(t, state, now);
	end_write(t);
	if (unlikely(left == 3))
		bury(prev, t, now);
	return left;
}

/* Rare cases for a task that comes: its first event, or an unreported switch-out or wake-up. */
static __noinline void arrive_from(struct task_rec *t, struct task_struct *next, struct cpu_rec *c, u64 now)
{
	first_event(t, WAIT);
	if (t->state == RUN) /* its switch-out elsewhere was not reported */
		t->state = UNKNOWN;
	roll(t, next, now);
	if (is_waiting(t->state))
		account_wait(t, next, c, now);
	else
		account(t, now);
}

/* A task comes onto the CPU; returns its group. */
static __always_inline u32 arrive(struct switch_args *args, struct cpu_rec *c, u64 now)
{
	struct task_struct *next = args->next;
	u32 tid = next->pid, *slot;
	struct task_rec *t;
	u64 throttled;

	c->tid = tid;
	c->slot = 0;
	if (!tid)
		return GROUP_IDLE;
	slot = bpf_map_lookup_elem(&slot_of_tid, &tid);
	t = slot && *slot ? bpf_map_lookup_elem(&tasks, slot) : NULL;
	if (unlikely(!t))
		t = new_task_rec(next, NULL);
	if (unlikely(!t))
		return GROUP_UNKNOWN;
	begin_write(t);
	throttled = t->cur.ns[THROTTLED];
	t->cpu = bpf_get_smp_processor_id();
	if (likely(t->state == WAIT)) {
		roll(t, next, now);
		account_wait(t, next, c, now);
	} else {
		arrive_from(t, next, c, now);
	}
	if (want_waits && is_waiting(t->state))
		emit_wait(now, lasted(t, now), tid);
	t->lengths[bucket_of(lasted(t, now))].waits++;
	t->ran = 1;
	enter(t, RUN, now);
	end_write(t);
	if (recorded(t)) {
		if (t->cur.ns[THROTTLED] != throttled || !(t->flags & BUDGETS_TOLD))
			record_budget(t, next, now);
		record_arrival(next, now);
	}
	c->slot = slot ? *slot : 0;
	return t->group;
}

SEC("tp_btf/sched_switch")
int on_switch(struct switch_args *args)
{
	u64 now = bpf_ktime_get_ns();
	struct cpu_rec *c = cpu_rec(bpf_get_smp_processor_id());
	struct task_struct *prev = args->prev;
	struct task_rec *t = NULL;
	u32 left, yielded;
	bool is_recorded;

	if (unlikely(!c || !watching(now)))
		return 0;
	*(volatile u32 *)&c->seq = c->seq + 1;
	barrier();
	if (likely(c->tid == prev->pid)) {
		u32 slot = c->slot;

		if (slot)
			t = bpf_map_lookup_elem(&tasks, &slot);
		roll_cpu(c, now);
	} else {
		t = leaver(c, prev, now);
	}
	account_cpu(c, now);
	if (want_record || want_trace)
		c->hardirqs = c->softirqs = c->timers = 0;
	is_recorded = recorded(t);
	yielded = is_recorded ? t->cur.yielded : 0;
	left = t ? leave(args, prev, c, t, now) : 0;
	if (is_recorded && t)
		record_leaving(prev, t->state, t->cur.yielded != yielded, left, now);
	if (want_trace)
		emit(now, bpf_get_smp_processor_id(), TRACE_SWITCH, left, prev->pid, args->next->pid);
	occupy(c, now, arrive(args, c, now));
	c->switches++;
	barrier();
	*(volatile u32 *)&c->seq = c->seq + 1;
	return 0;
}

static __always_inline void becomes_runnable(struct task_struct *p, struct task_rec *t, u64 now)
{
	t->cpu = p->thread_info.cpu;
	t->cur.wakeups++;
	enter(t, begin_wait(t, p, now), now);
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_wakeup, struct task_struct *p)
{
	struct task_rec *t = task_rec(p->pid);
	u64 now;

	/* A task that is running or queued can be woken, too: then nothing changes. */
	if (t && (t->state == RUN || is_waiting(t->state)))
		return 0;
	now = t && t->state != NEVER ? wakeup_time(p) : bpf_ktime_get_ns(); /* the former needs one that is off the CPU */
	if (!watching(now))
		return 0;
	if (!t)
		t = new_task_rec(p, NULL);
	if (!t)
		return 0;
	begin_write(t);
	first_event(t, before_first_event(t));
	roll(t, p, now);
	account(t, now);
	becomes_runnable(p, t, now);
	end_write(t);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_wakeup_new, struct task_struct *p)
{
	u64 now = bpf_ktime_get_ns();
	struct task_struct *parent = bpf_get_current_task_btf();
	struct task_rec *t, *from;

	if (!watching(now))
		return 0;
	forget(p->pid);
	from = task_rec(parent->pid);
	if (from)
		look_where(from, parent);
	t = new_task_rec(p, from);
	if (!t)
		return 0;
	begin_write(t);
	t->born_ns = t->since_ns = now;
	becomes_runnable(p, t, now);
	end_write(t);
	emit(now, t->cpu, TRACE_WAKEUP, 0, parent->pid, t->tid);
	if (recorded(t)) {
		record(now, who(t->tid, RECORD_BORN, t->tid != t->tgid), parent->pid, t->tgid);
		record_budget(t, p, now);
	}
	return 0;
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(on_migrate, struct task_struct *p, int dest_cpu)
{
	u64 now = bpf_ktime_get_ns();
	u32 from = p->thread_info.cpu, to = dest_cpu, distance;
	struct task_rec *t;
	struct place *a, *b;

	if (!watching(now) || from == to)
		return 0;
	t = task_rec_of(p);
	if (!t)
		return 0;
	a = bpf_map_lookup_elem(&places, &from);
	b = bpf_map_lookup_elem(&places, &to);
	if (!a || !b)
		return 0;
	distance = a->core == b->core ? 0 : a->llc == b->llc ? 1 : a->socket == b->socket ? 2 : 3;
	begin_write(t);
	first_event(t, p->on_rq ? WAIT : before_first_event(t));
	roll(t, p, now);
	if (is_waiting(t->state)) { /* its wait so far was on the old CPU */
		account_wait(t, p, cpu_rec(from), now);
		if (budgets_met) /* the kernel reports it before it does it */
			wait_on(t, p, to);
		t->cpu = to;
		if (want_waits)
			emit(now, to, TRACE_MOVED, 0, from, t->tid);
	}
	t->cur.migrations[distance]++;
	end_write(t);
	return 0;
}

/*
 * A thread other than its process's first runs a program: the kernel ends the others and gives it the number
 * of the first. Its record ends here, and the record of that number goes on.
 */
static __noinline void renumber(struct task_struct *p, u32 before)
{
	u32 cpu = bpf_get_smp_processor_id(), tid = p->pid, *slot = bpf_map_lookup_elem(&slot_of_tid, &tid);
	struct cpu_rec *c = cpu_rec(cpu);
	struct task_rec *t = task_rec(before), *goes_on;
	u64 now = bpf_ktime_get_ns();

	if (!t || !c || !slot || !watching(now))
		return;
	begin_write(t);
	/* If it has been off the CPU since it got the number, that number's record has the events since then. */
	first_event(t, c->tid == before || c->tid == NO_TID ? RUN : UNKNOWN);
	roll(t, p, now);
	account(t, now);
	end_write(t);
	goes_on = task_rec_of(p);
	if (goes_on) { /* of the same instant, so that an edge is after both or before both */
		begin_write(goes_on);
		if (t->flags & STICKY) {
			goes_on->flags |= STICKY;
			goes_on->group = t->group;
		}
		first_event(goes_on, RUN);
		roll(goes_on, p, now);
		account_any(goes_on, p, now);
		goes_on->cpu = cpu;
		goes_on->ran = 1;
		if (goes_on->state != RUN)
			enter(goes_on, RUN, now);
		end_write(goes_on);
		if (c->tid == before) {
			c->slot = *slot;
			c->tid = tid;
		}
	}
	if (recorded(t)) {
		record(now, who(before, RECORD_LEAVES, 3), 0, 0);
		record_arrival(p, now);
	}
	/* Last, so that the subject always has a task. */
	bury(p, t, now);
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *p, int before)
{
	struct task_rec *t;

	if (before != p->pid)
		renumber(p, before);
	t = task_rec(p->pid);
	if (!t)
		return 0;
	look_where(t, p);
	rename_group(t, p);
	return 0;
}

SEC("tp_btf/task_rename")
int BPF_PROG(on_rename, struct task_struct *p, const char *comm)
{
	struct task_rec *t = task_rec(p->pid);

	if (t)
		bpf_probe_read_kernel(t->comm, sizeof(t->comm), comm);
	return 0;
}

/* A task has been moved to another cgroup. */
static __always_inline void moved(struct task_struct *p)
{
	struct task_rec *t = task_rec(BPF_CORE_READ(p, pid));

	if (t)
		wait_elsewhere(t, p);
	if (may_regroup(t))
		regroup(t, address_of(p));
}

struct moving {
	struct list_head *at;
	struct list_head *end;
};

static long move_thread(u32 i, struct moving *m)
{
	struct list_head *at = m->at;
	struct task_struct *p;

	if (!at || at == m->end)
		return 1;
	p = (void *)at - bpf_core_field_offset(struct task_struct, thread_node);
	moved(p);
	m->at = BPF_CORE_READ(at, next);
	return 0;
}

/* The kernel reports a process once, by its first thread, after all of its threads have been moved. */
SEC("tp_btf/cgroup_attach_task")
int BPF_PROG(on_cgroup_attach, struct cgroup *to, const char *path, struct task_struct *leader, bool threadgroup)
{
	struct task_rec *t = task_rec(leader->pid);
	struct moving m = {};
	struct list_head *threads;

	if (recorded(t))
		record_budget(t, leader, bpf_ktime_get_ns());
	if (!threadgroup) {
		moved(leader);
		return 0;
	}
	threads = (void *)BPF_CORE_READ(leader, signal) + bpf_core_field_offset(struct signal_struct, thread_head);
	m.at = BPF_CORE_READ(threads, next);
	m.end = threads;
	bpf_loop(MOST_THREADS, move_thread, &m, 0);
	return 0;
}

/*
 * Once after attaching: a record for every existing task, with its state. Later: how much quotas took of the
 * waits that were open at the newest edge.
 */
SEC("iter/task")
int look_at_task(struct bpf_iter__task *ctx)
{
	struct task_struct *p = ctx->task;
	struct task_rec *t;
	u32 state;

	if (!p || !p->pid)
		return 0;
	if (control.stocked) {
		t = task_rec(p->pid);
		if (t)
			look_at_open_wait(t, p, control.edge_ns);
		return 0;
	}
	if (!registers_in_stack)
		find_registers(p);
	state = p->__state;
	if (state & TASK_DEAD) /* it will never run again, and so never end */
		return 0;
	t = task_rec_of(p);
	if (!t)
		return 0;
	if (p->on_cpu)
		t->guess = RUN;
	else if (p->on_rq && !(bpf_core_field_exists(p->se.sched_delayed) && p->se.sched_delayed)) {
		if (t->state == NEVER)
			t->guess = begin_wait(t, p, bpf_ktime_get_ns());
	} else
		t->guess = block_state(t, p, state_of_syscall(t, p), state);
	return 0;
}
