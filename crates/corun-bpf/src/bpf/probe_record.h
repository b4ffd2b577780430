/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The run log: the actions of the subject's tasks, event by event, so that user space can replay the run. It
 * is off unless it is requested when the probe is loaded. It costs two events per switch of the subject's
 * tasks and one per wake-up of one of them.
 *
 * The waker of a task is known in `sched_waking`, which runs on the waker's side. Deadlines come from
 * `hrtimer_start`: a task that sleeps for a time keeps its timer in a structure that names the task, and
 * starts it even if its deadline has passed already. Entries into system calls are not traced, since that
 * would slow down every call of every program.
 */
#ifndef CORUN_PROBE_RECORD_H
#define CORUN_PROBE_RECORD_H

/*
 * Whether a CPU is in an interrupt, which runs in the name of the interrupted task. The kernel's own count is
 * a per-CPU variable that many kernels do not export by name. So the probe counts handlers: hard ones,
 * soft ones, and those of timers. No switch happens inside one, so a switch corrects an error.
 */
#define COUNT_IN(TRACEPOINT, FIELD, BY)                                                                        \
	SEC("tp_btf/" #TRACEPOINT)                                                                            \
	int in_##TRACEPOINT(void *ctx)                                                                        \
	{                                                                                                     \
		struct cpu_rec *c = cpu_rec(bpf_get_smp_processor_id());                                      \
                                                                                                              \
		if (c)                                                                                        \
			c->FIELD += BY;                                                                       \
		return 0;                                                                                     \
	}

COUNT_IN(irq_handler_entry, hardirqs, 1)
COUNT_IN(irq_handler_exit, hardirqs, -1)
COUNT_IN(hrtimer_expire_entry, timers, 1)
COUNT_IN(hrtimer_expire_exit, timers, -1)
COUNT_IN(timer_expire_entry, timers, 1)
COUNT_IN(timer_expire_exit, timers, -1)
COUNT_IN(softirq_entry, softirqs, 1)
COUNT_IN(softirq_exit, softirqs, -1)

/* Whether a task's actions go into the run log. */
static __always_inline bool recorded(struct task_rec *t)
{
	return want_record && t && t->group == control.record_group;
}

static __always_inline u64 who(u32 tid, u8 kind, u8 how)
{
	return tid | (u64)kind << 32 | (u64)how << 40 | (u64)bpf_get_smp_processor_id() << 48;
}

static __noinline void record(u64 now, u64 who, u64 a, u64 b)
{
	struct record_event *e;

	e = bpf_ringbuf_reserve(&run_log, sizeof(*e), 0);
	if (!e) {
		__sync_fetch_and_add(&losses.record_events, 1);
		return;
	}
	e->t_ns = now;
	e->who = who;
	e->a = a;
	e->b = b;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
}

static __always_inline bool is_confining(u32 place)
{
	return place == places_of_setaffinity[0] || place == places_of_setaffinity[1];
}

/*
 * The point in its period at which a quota is refilled, plus one; 0: unknown. Its timer fires at regular
 * times, even after it has rested.
 */
static __always_inline u64 filled_in_period(struct task_group *g, u64 period)
{
	struct cfs_bandwidth *b = __builtin_preserve_access_index(&g->cfs_bandwidth);
	u64 at;

	if (!bpf_core_field_exists(struct cfs_bandwidth, period_timer))
		return 0;
	at = fires_at(__builtin_preserve_access_index(&b->period_timer));
	return at == FOREVER ? 0 : at % period + 1;
}

/* The quotas of the groups that a task is in, the innermost first. */
static __noinline void record_budget(struct task_rec *t, struct task_struct *p, u64 now)
{
	struct task_group *g = NULL;
	u32 pid = t->tid;
	u64 quota = 0, period = 0;

	if (!want_record || !bpf_core_field_exists(p->sched_task_group) || !bpf_core_field_exists(g->cfs_bandwidth))
		return;
	__sync_fetch_and_or(&t->flags, BUDGETS_TOLD);
	g = BPF_CORE_READ(p, sched_task_group);
	for (int level = 0; g && level < 8; level++) {
		u64 q = BPF_CORE_READ(g, cfs_bandwidth.quota), per = BPF_CORE_READ(g, cfs_bandwidth.period);

		if ((s64)q > 0 && q < 1ULL << 40 && per && per < 1ULL << 32) {
			if (quota)
				record(now, who(pid, RECORD_BUDGET, 1), quota, period);
			quota = q;
			period = per | filled_in_period(g, per) << 32;
		}
		g = BPF_CORE_READ(g, parent);
	}
	record(now, who(pid, RECORD_BUDGET, 0), quota, period);
}

/*
 * A task has left the CPU, in this way (as in a trace_event). For a futex the address is recorded, for an end
 * the signal that caused it. A task that requests other CPUs leaves in that system call if its own CPU is not
 * among them, or if it waits until another task has left one.
 */
static __always_inline void record_leaving(struct task_struct *prev, u32 state, bool yielded, u32 left, u64 now)
{
	u64 object = 0;

	if (left != 3 && is_confining(place_of_syscall(prev)))
		record(now, who(prev->pid, RECORD_CONFINES, 0), 0, 0);
	if (left == 1 && state == BLOCK_FUTEX)
		object = first_argument(prev);
	if (left == 3)
		object = BPF_CORE_READ(prev, exit_code) & 0x7f;
	if (left == 4) /* stopped or frozen: blocked, in that state */
		left = 1;
	else if (!left && yielded)
		left = 4;
	record(now, who(prev->pid, RECORD_LEAVES, left), state, object);
}

static __noinline void record_arrival(struct task_struct *next, u64 now)
{
	u64 may[2] = {};
	const void *mask = BPF_CORE_READ(next, cpus_ptr);
	u32 size = bpf_core_type_size(struct cpumask);

	/* The bytes after a shorter mask are no CPUs, and may be an address. */
	bpf_probe_read_kernel(may, size && size < sizeof(may) ? size : sizeof(may), mask);
	record(now, who(BPF_CORE_READ(next, pid), RECORD_RUNS, 0), may[0], may[1]);
}

/*
 * The task of the subject that a kernel thread works for: the one that woke it last, until anyone else wakes
 * it. For example, a kernel worker delivers output to a terminal. The reader then waits for the writer, and
 * not for the worker.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, u32);
} works_for SEC(".maps");

static __always_inline void note_errand(struct task_struct *worker, struct task_struct *waker, u8 how)
{
	u32 tid = worker->pid, by = waker->pid;

	if (how == WAKER_TASK && recorded(task_rec(by)))
		bpf_map_update_elem(&works_for, &tid, &by, 0);
	else
		bpf_map_delete_elem(&works_for, &tid);
}

/* The waker of a task: the waking task itself, or the one that it works for. A task that waits for its own
 * errand waits for a device. */
static __always_inline u32 behind(struct task_struct *waker, u32 wakee)
{
	u32 tid = waker->pid, *by;

	if (!(waker->flags & PF_KTHREAD))
		return tid;
	by = bpf_map_lookup_elem(&works_for, &tid);
	return by && *by != wakee ? *by : tid;
}

/* It runs on the waker's side, whether or not the task sleeps. */
SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *p)
{
	struct task_struct *waker = bpf_get_current_task_btf();
	struct task_rec *t = task_rec(p->pid);
	struct cpu_rec *c = cpu_rec(bpf_get_smp_processor_id());
	bool is_recorded = recorded(t), is_worker;
	u32 by, nr = NO_TID;
	u8 how;
	u64 now;

	is_worker = want_record && p->flags & PF_KTHREAD;
	if (!c || (!is_recorded && !is_worker && !want_trace))
		return 0;
	now = bpf_ktime_get_ns();
	if (!watching(now))
		return 0;
	by = waker->pid;
	how = c->timers > 0 ? WAKER_TIMER : c->hardirqs > 0 ? WAKER_HARDIRQ : c->softirqs > 0 ? WAKER_SOFTIRQ :
	      by ? WAKER_TASK : WAKER_IDLE;
	if (how == WAKER_SOFTIRQ && by && !(waker->flags & PF_KTHREAD))
		nr = place_of_syscall(waker);
	/* If a task sends to this machine, a soft interrupt within its own system call delivers it. */
	if (nr < 2 * SYSCALLS && block_state_of_syscall[nr] == BLOCK_PIPE)
		how = WAKER_TASK;
	if (how != WAKER_TASK)
		by = 0;
	if (is_worker)
		note_errand(p, waker, how);
	if (is_recorded)
		record(now, who(p->pid, RECORD_WOKEN, how), how == WAKER_TASK ? behind(waker, p->pid) : 0, 0);
	/* A running or queued task can be woken, too: then nothing changes. */
	if (want_trace && !(t && (t->state == RUN || is_waiting(t->state))))
		emit(now, p->thread_info.cpu, TRACE_WAKEUP, how, by, p->pid);
	return 0;
}

/* A task that is about to sleep for a time starts a timer. */
SEC("tp_btf/hrtimer_start")
int BPF_PROG(on_timer, struct hrtimer *timer, int mode)
{
	struct task_struct *p = bpf_get_current_task_btf(), *sleeper = NULL;
	struct task_rec *t = task_rec(p->pid);
	u64 expires, offset, now;

	if (!recorded(t))
		return 0;
	bpf_probe_read_kernel(&sleeper, sizeof(sleeper), (void *)timer + bpf_core_field_offset(struct hrtimer_sleeper, task));
	if (sleeper != p)
		return 0;
	now = bpf_ktime_get_ns();
	if (!watching(now))
		return 0;
	expires = BPF_CORE_READ(timer, node.expires);
	offset = BPF_CORE_READ(timer, base, offset); /* of this timer's clock to the monotonic one */
	record(now, who(p->pid, RECORD_TIMER, mode & 1), expires - offset, 0);
	return 0;
}

#endif
