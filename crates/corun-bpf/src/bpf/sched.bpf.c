// SPDX-License-Identifier: GPL-2.0
/*
 * The scheduler: the five knobs, carried out by sched_ext.
 *
 * Kernel     6.12 or newer with CONFIG_SCHED_CLASS_EXT; CONFIG_EXT_GROUP_SCHED for cgroups' weights.
 *
 * Method
 *   Fair queueing at two levels. Cells (sched_cells.h) share the machine by their weights; within a cell, tasks share by
 *   the weights of their nice values. A CPU that needs a task takes it from the cell with the lowest virtual time. The
 *   cell pays for a whole slice in advance, so that many CPUs do not all pick the same one, and gets back the unused
 *   part. Decisions without state are in decisions.h, which the modelled machine compiles, too.
 *
 *   A cell has one queue per last-level cache. A CPU takes from the queue of its own cache, and from others if that is
 *   empty. Every eighth time it tries another one first, so that no cache's tasks stay behind.
 *
 * Knobs
 *   slice          drawn anew each time a task gets a CPU; ended by a timer of our own, since the tick is too coarse.
 *                  Tasks without one have the default slice, which ends at the first tick after it.
 *   preempt_delay  a waking task that deserves the CPU more than the running one gets it after the delay, or when the
 *                  other leaves it. One timer per CPU; the earliest wake-up arms it.
 *   park           the cell's queues are not examined, and its running tasks are preempted. A park is a lease that user
 *                  space renews, and ends by itself after `park_limit_ns`: the kernel removes a scheduler that leaves a
 *                  runnable task waiting for 30 s.
 *   weight         of a cell.
 *   cpus           is the kernel's own affinity: a task is moved only to CPUs that it may run on. Nothing to do here.
 *
 * Always served: kernel threads take a CPU when they wake up. Those that go on beyond a slice then wait their turn like
 * everybody else, none with less weight than that of nice 0. The kernel itself runs tasks that are exiting or may not
 * migrate, at once. These, the kernel's other threads and protected tasks belong to the root, which is never parked.
 *
 * Limits
 *   - A parked task may hold a lock inside the kernel that others wait for; the freezer would let it leave the kernel
 *     first. A task that is parked while runnable dies only when its park ends.
 *   - Sessions are not separated (the kernel's autogroup is not carried over); only cgroups and tenants are.
 *   - Real-time and deadline tasks never come here: the kernel runs them before all others.
 */
#include "scx_min.h"
#include "decisions.h"
#include "sched.h"

char LICENSE[] SEC("license") = "GPL";

enum { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_ARRAY = 2, BPF_MAP_TYPE_TASK_STORAGE = 29 };
enum { BPF_F_NO_PREALLOC = 1, BPF_LOCAL_STORAGE_GET_F_CREATE = 1, BPF_F_TIMER_CPU_PIN = 2, CLOCK_MONOTONIC = 1 };

/* Set by user space before loading. */
const volatile u64 default_slice_ns = 3000000;
const volatile u64 granularity_ns = 1000000; /* a task that wakes up must be behind by this much to preempt */
const volatile u64 park_limit_ns = 20000000000ULL;
const volatile u32 llcs = 1;
const volatile u8 llc_of_cpu[CPUS];

struct control control;
struct scheduler_exit scheduler_exit;
struct losses losses;
struct cpu cpus[CPUS];

#include "sched_cells.h"

#include "sched_alarms.h"
#include "sched_task.h"
#include "sched_cgroups.h"

static __always_inline u64 enq_preempt(void)
{
	return bpf_core_enum_value(enum scx_enq_flags, SCX_ENQ_PREEMPT);
}

/* Whether fairness gives the CPU to the waking task rather than to the running one. */
static __always_inline bool deserves(struct task *t, u64 task_vtime, u64 own_share, struct cpu *r, u64 now)
{
	u64 ran = now - r->started_ns, share;
	struct cell *c;

	if (r->cell == t->cell)
		return corun_wants_cpu(task_vtime, corun_vtime_ran(r->task_vtime, ran, r->task_share), granularity_ns,
				       own_share);
	c = cell_at(t->cell);
	share = share_of(t->cell);
	return corun_wants_cpu(c->vtime, corun_vtime_ran(r->vtime, ran, r->share), granularity_ns, share);
}

static __always_inline void preempt(struct task *t, u64 task_vtime, u64 own_share, s32 cpu)
{
	struct cpu *r = cpu_at(cpu);
	u64 now = bpf_ktime_get_ns(), due;
	u32 key = cpu;
	struct alarm *a;

	if (r->cell >= CELLS || !deserves(t, task_vtime, own_share, r, now))
		return;
	due = corun_preempt_due_ns(now, t->delay_ns, r->preempt_due_ns);
	if (due == now) {
		r->preempts_now++;
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		return;
	}
	if (due == r->preempt_due_ns)
		return;
	a = bpf_map_lookup_elem(&preempt_alarms, &key);
	if (!a)
		return;
	r->preempt_due_ns = due;
	bpf_timer_start(&a->timer, due - now, 0);
}

SEC("struct_ops/corun_select_cpu")
s32 BPF_PROG(corun_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct task *t = task_of(p);
	bool idle = false;
	s32 cpu;

	if (!t)
		return prev_cpu;
	read_knobs(p, t);
	/* An idle CPU that is found counts as taken: do not search for a task that may not run. */
	if (!corun_may_run(bpf_ktime_get_ns(), parked_until_ns(cell_at(t->cell)), 0))
		return prev_cpu;
	cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &idle);
	if (idle) {
		cpu_at(cpu)->direct++;
		dsq_insert(p, SCX_DSQ_LOCAL, draw_slice(t), 0);
	}
	return cpu;
}

SEC("struct_ops/corun_enqueue")
void BPF_PROG(corun_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_struct___scx *x = (void *)p;
	bool wakes = enq_flags & bpf_core_enum_value(enum scx_enq_flags, SCX_ENQ_WAKEUP), may_run;
	s32 cpu = scx_bpf_task_cpu(p), idle;
	struct task *t = task_of(p);
	u64 now, vtime, share, slice;
	struct cell *c;
	u32 cell;

	if (!t) {
		dsq_insert(p, SCX_DSQ_LOCAL, default_slice_ns, enq_flags);
		return;
	}
	read_knobs(p, t);
	unqueue(t);
	slice = draw_slice(t);
	/* Nobody else could fetch it from a CPU that a real-time task has; an idle one was found before. */
	if (wakes && (p->flags & PF_KTHREAD) && (is_bound(p) || cpu_at(cpu)->cell != NOBODY)) {
		cpu_at(cpu)->kernel++;
		dsq_insert(p, SCX_DSQ_LOCAL, slice, enq_flags | enq_preempt());
		return;
	}
	now = bpf_ktime_get_ns();
	cell = t->cell;
	c = cell_at(cell);
	may_run = corun_may_run(now, parked_until_ns(c), 0);
	share = task_share(p);
	vtime = corun_vtime_join(SCX(p).dsq_vtime, c->task_vtime, default_slice_ns, share);
	catch_up(c, default_slice_ns, share_of(cell));
	t->queued = cell + 1;
	__sync_fetch_and_add(&c->queued, 1);
	dsq_insert_vtime(p, queue_of(cell, llc_of_cpu[(u32)cpu % CPUS]), slice, vtime, enq_flags);
	if (!may_run)
		return;
	idle = scx_bpf_pick_idle_cpu(x->cpus_ptr, 0);
	if (idle >= 0)
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
	else if (wakes)
		preempt(t, vtime, share, cpu);
}

static __always_inline bool take_from(u32 cell, u32 first_llc)
{
	u32 n = llcs, i;

	bpf_for(i, 0, n) {
		u32 llc = first_llc + i;

		if (dsq_move_to_local(queue_of(cell, llc < n ? llc : llc - n)))
			return true;
	}
	return false;
}

/* Whether a waiting task in this task's own cell comes before it. */
static __always_inline bool overtaken(struct task_struct *p, u32 cell, u32 llc)
{
	u64 vtime = SCX(p).dsq_vtime;
	struct bpf_iter_scx_dsq it;
	struct task_struct *head;
	bool before = false;

	if (!bpf_iter_scx_dsq_new(&it, queue_of(cell, llc), 0)) {
		head = bpf_iter_scx_dsq_next(&it);
		before = head && !corun_before(vtime, SCX(head).dsq_vtime);
	}
	bpf_iter_scx_dsq_destroy(&it);
	return before;
}

SEC("struct_ops/corun_dispatch")
void BPF_PROG(corun_dispatch, s32 cpu, struct task_struct *prev)
{
	struct cpu *r = cpu_at(cpu);
	u64 now = bpf_ktime_get_ns(), vtime = 0, own_vtime = 0, slice;
	u32 llc = llc_of_cpu[(u32)cpu % CPUS], i = 0, attempt;
	struct task *t = NULL;
	bool first = true;

	if (llcs > 1 && r->picked % 8 == 7)
		llc = (r->picked / 8) % llcs;
	/* The task on the CPU competes with the waiting ones, if it wants to go on and may. */
	if (prev && (SCX(prev).flags & SCX_TASK_QUEUED)) {
		t = task_of(prev);
		if (t) {
			/* Before the knobs may give it another cell: its past run belongs to the one that has paid in advance. */
			settle(prev, t);
			read_knobs(prev, t);
			own_vtime = cell_at(t->cell)->vtime;
			if (!corun_may_run(now, parked_until_ns(cell_at(t->cell)), 0))
				t = NULL;
		}
	}
	bpf_for(attempt, 0, CELLS) {
		i = next_cell(first, vtime, i, now, &vtime);
		first = false;
		if (i == NOBODY)
			break;
		if (t && i != t->cell && !corun_before(vtime, own_vtime))
			break;
		if (t && i == t->cell && !overtaken(prev, i, llc))
			break;
		if (take_from(i, llc)) {
			r->picked++;
			return;
		}
	}
	if (!t)
		return;
	slice = draw_slice(t);
	r->kept++;
	task_set_slice(prev, slice);
	begin_slice(prev, t, cpu, slice);
}

SEC("struct_ops/corun_runnable")
void BPF_PROG(corun_runnable, struct task_struct *p, u64 enq_flags)
{
	struct task *t = task_of(p);

	if (!t || t->weight)
		return;
	t->weight = weight_of(p);
	join(t->cell, t->weight);
}

SEC("struct_ops/corun_running")
void BPF_PROG(corun_running, struct task_struct *p)
{
	/* Not the present CPU: another task may change a running task's attributes. */
	s32 cpu = scx_bpf_task_cpu(p);
	struct task *t = task_of(p);
	struct cpu *r = cpu_at(cpu);
	struct cell *c;

	if (!t)
		return;
	unqueue(t);
	read_knobs(p, t);
	c = cell_at(t->cell);
	r->switches++;
	r->tid = p->pid;
	begin_slice(p, t, cpu, SCX(p).slice);
	/* It was on its way when its cell was parked. */
	if (!corun_may_run(r->started_ns, parked_until_ns(c), 0))
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* The bucket of a stretch: that of 2^(i+6) us is i. */
static __always_inline u32 bucket(u64 ns)
{
	u64 us = ns / 1000;
	u32 i;

	bpf_for(i, 0, STRETCHES - 1)
		if (us < (64ULL << i))
			return i;
	return STRETCHES - 1;
}

SEC("struct_ops/corun_stopping")
void BPF_PROG(corun_stopping, struct task_struct *p, bool runnable)
{
	struct task *t = task_of(p);
	struct cpu *r = cpu_at(scx_bpf_task_cpu(p));
	struct cell *c;

	r->cell = NOBODY;
	r->slice_end_ns = 0;
	r->preempt_due_ns = 0;
	if (!t)
		return;
	settle(p, t);
	/*
	 * With a part of its slice left, it would stay on this CPU, which a real-time task takes: until that leaves,
	 * however idle the others are. Without, it goes to its queue, where every CPU finds it.
	 */
	if (runnable && !is_bound(p))
		task_set_slice(p, 0);
	c = cell_at(t->cell);
	__sync_fetch_and_add(&c->stretches, 1);
	if (runnable)
		__sync_fetch_and_add(&c->preempted, 1);
	__sync_fetch_and_add(&c->lengths[bucket(bpf_ktime_get_ns() - r->started_ns) % STRETCHES], 1);
}

SEC("struct_ops/corun_quiescent")
void BPF_PROG(corun_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct task *t = task_of(p);
	u32 weight;

	if (!t)
		return;
	unqueue(t);
	weight = t->weight;
	t->weight = 0;
	if (weight)
		leave(t->cell, weight);
}

SEC("struct_ops/corun_set_weight")
void BPF_PROG(corun_set_weight, struct task_struct *p, u32 weight)
{
	struct task *t = task_of(p);
	u32 before;

	if (!t || !t->weight)
		return;
	before = t->weight;
	t->weight = weight_of(p);
	join(t->cell, t->weight);
	leave(t->cell, before);
}

/* The parent's settings apply to the child, even if the parent itself has not read them yet. */
static __always_inline void inherit(struct task_struct *p, struct task *t)
{
	struct task_struct *by = bpf_get_current_task_btf();
	u32 tid = p->pid, parent_tid = by->pid;
	struct task *parent;
	struct knob *k;

	/* The previous owner of this number has ended, though something may have been set for it after that. */
	bpf_map_delete_elem(&knobs, &tid);
	k = bpf_map_lookup_elem(&knobs, &parent_tid);
	parent = bpf_task_storage_get(&tasks, by, 0, 0);
	if (k) {
		take_knobs(t, k);
		t->cell = home_of(t, k->cell);
	} else if (parent) {
		t->slice_min_ns = parent->slice_min_ns;
		t->slice_max_ns = parent->slice_max_ns;
		t->delay_ns = parent->delay_ns;
		t->flags = parent->flags;
		t->cell = home_of(t, parent->cell);
	}
}

SEC("struct_ops.s/corun_init_task")
s32 BPF_PROG(corun_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task *t = bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!t)
		return -12; /* ENOMEM */
	if (!(p->flags & PF_KTHREAD) && bpf_core_field_exists(args->cgroup) && args->cgroup)
		t->cgroup_cell = cell_of(args->cgroup);
	t->cell = t->cgroup_cell;
	if (args->fork)
		inherit(p, t);
	__sync_fetch_and_add(&cell_at(t->cell)->members, 1);
	return 0;
}

SEC("struct_ops/corun_exit_task")
void BPF_PROG(corun_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct task *t = task_of(p);
	u32 tid = p->pid;

	bpf_map_delete_elem(&knobs, &tid);
	if (t)
		__sync_fetch_and_sub(&cell_at(t->cell)->members, 1);
}

SEC("struct_ops/corun_enable")
void BPF_PROG(corun_enable, struct task_struct *p)
{
	struct task *t = task_of(p);

	if (t)
		task_set_vtime(p, cell_at(t->cell)->task_vtime);
}

/* Having these two tells the kernel that CPUs may come and go: queues belong to caches, not to CPUs. */
SEC("struct_ops/corun_cpu_online")
void BPF_PROG(corun_cpu_online, s32 cpu)
{
}

SEC("struct_ops/corun_cpu_offline")
void BPF_PROG(corun_cpu_offline, s32 cpu)
{
	cpu_at(cpu)->cell = NOBODY;
}

SEC("struct_ops.s/corun_init")
s32 BPF_PROG(corun_init)
{
	u32 cpu_ids = scx_bpf_nr_cpu_ids(), n = llcs, i;
	s32 err;

	cells[0].used = 1;
	cells[0].weight = CORUN_DEFAULT_WEIGHT;
	cells[0].made = 1;
	bpf_for(i, 0, n) {
		err = scx_bpf_create_dsq(queue_of(0, i), -1);
		if (err)
			return err;
	}
	bpf_for(i, 0, cpu_ids) {
		cpu_at(i)->cell = NOBODY;
		INIT_ALARM(slice_alarms, i, slice_over);
		INIT_ALARM(preempt_alarms, i, preempt_due);
	}
	INIT_ALARM(lease_alarm, 0, lease_check);
	return 0;
}

SEC("struct_ops/corun_exit")
void BPF_PROG(corun_exit, struct scx_exit_info *info)
{
	bpf_probe_read_kernel_str(scheduler_exit.reason, sizeof(scheduler_exit.reason), info->reason);
	bpf_probe_read_kernel_str(scheduler_exit.message, sizeof(scheduler_exit.message), info->msg);
	scheduler_exit.kind = info->kind;
}

SEC(".struct_ops.link")
struct sched_ext_ops corun = {
	.select_cpu = (void *)corun_select_cpu,
	.enqueue = (void *)corun_enqueue,
	.dispatch = (void *)corun_dispatch,
	.runnable = (void *)corun_runnable,
	.running = (void *)corun_running,
	.stopping = (void *)corun_stopping,
	.quiescent = (void *)corun_quiescent,
	.set_weight = (void *)corun_set_weight,
	.init_task = (void *)corun_init_task,
	.exit_task = (void *)corun_exit_task,
	.enable = (void *)corun_enable,
	.cgroup_init = (void *)corun_cgroup_init,
	.cgroup_exit = (void *)corun_cgroup_exit,
	.cgroup_move = (void *)corun_cgroup_move,
	.cgroup_set_weight = (void *)corun_cgroup_set_weight,
	.cpu_online = (void *)corun_cpu_online,
	.cpu_offline = (void *)corun_cpu_offline,
	.init = (void *)corun_init,
	.exit = (void *)corun_exit,
	.flags = SCX_OPS_ENQ_LAST,
	.timeout_ms = 30000,
	.name = "corun",
};
