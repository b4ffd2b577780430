/* SPDX-License-Identifier: GPL-2.0 */
/*
 * States: what a task does, how its time is added to its sums, and how a window is closed at its edge.
 */
#ifndef CORUN_PROBE_STATES_H
#define CORUN_PROBE_STATES_H

/* A table, since a switch looks up two, mostly of small numbers: branches, often mispredicted, cost 5 ns
 * more. */
static const volatile u8 log2_of[16] = { 0, 0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3 };

/* As corun-model's Histogram::bucket_of: powers of two of 1024 ns. */
static __always_inline u32 bucket_of(u64 ns)
{
	u64 units = ns >> 10;
	u32 b = 0;

	if (unlikely(units >> 24))
		return BUCKETS - 1;
	if (unlikely(units >= 16)) {
		if (units >= 1 << 16) { b += 16; units >>= 16; }
		if (units >= 1 << 8) { b += 8; units >>= 8; }
		if (units >= 1 << 4) { b += 4; units >>= 4; }
	}
	b += log2_of[units & 15];
	return b < BUCKETS ? b : BUCKETS - 1;
}

/*
 * Adds [since, to), spent waiting on `c`, to the sums, and charges the part that no budget took to the
 * occupants of that CPU. At a window edge the clock may be beyond it: time that was throttled after the edge
 * belongs to the next part of the wait.
 */
static __always_inline void account_wait(struct task_rec *t, struct task_struct *p, struct cpu_rec *c, u64 to)
{
	u64 from = t->since_ns;

	if (to <= from)
		return;
	t->since_ns = to;
	if (unlikely(budgets_met)) {
		u64 throttled = take_throttled(t, p, from, to);

		emit_throttled(from, throttled, t->tid);
		from += throttled;
	}
	t->cur.ns[WAIT] += to - from;
	charge_wait(t, c, from, to);
}

/* Adds [since, to), spent in any state but waiting, to the sums. */
static __always_inline void account(struct task_rec *t, u64 to)
{
	u64 from = t->since_ns;
	u32 state = t->state;

	if (to <= from)
		return;
	t->since_ns = to;
	if (likely(state < STATES))
		t->cur.ns[state] += to - from;
	else if (state < ALL_STATES)
		t->cur.held_ns[state - STATES] += to - from;
}

/* The same in any state. */
static __always_inline void account_any(struct task_rec *t, struct task_struct *p, u64 to)
{
	if (is_waiting(t->state))
		account_wait(t, p, cpu_rec(t->cpu), to);
	else
		account(t, to);
}

/* The same for a task that is most probably in `state`. */
static __always_inline void account_likely(struct task_rec *t, u32 state, u64 to)
{
	u64 from = t->since_ns;

	if (unlikely(t->state != state)) {
		account(t, to);
	} else if (likely(to > from)) {
		t->since_ns = to;
		t->cur.ns[state] += to - from;
	}
}

/* Keeps the sums of the edge. */
__noinline u32 set_aside(struct task_rec *t, u64 task, u64 edge)
{
	if (!t)
		return 0;
	__builtin_memcpy(&t->snap, &t->cur, sizeof(t->snap));
	t->edge_ns = edge;
	look_where(t, (void *)task);
	return 0;
}

static __noinline void close_window(struct task_rec *t, struct task_struct *p, u64 edge)
{
	if (t->born_ns < edge)
		account_any(t, p, edge);
	set_aside(t, address_of(p), edge);
}

/* Closes the open interval at the newest edge, if that has passed and this record has not seen it. */
static __always_inline void roll(struct task_rec *t, struct task_struct *p, u64 now)
{
	u64 edge = control.edge_ns;

	if (unlikely(t->edge_ns != edge && now >= edge))
		close_window(t, p, edge);
}

/* The task's first event shows what it had been doing since the start. */
static __always_inline u32 before_first_event(struct task_rec *t)
{
	return t->guess > NEVER && t->guess < ALL_STATES ? t->guess : BLOCK_OTHER;
}

static __always_inline void first_event(struct task_rec *t, u32 was)
{
	if (unlikely(t->state == NEVER))
		t->state = was;
}

/*
 * How long the present state has lasted. The time of a wake-up is off by the staleness of the run queue's
 * clock when its lead was measured (wakeup_time). So a wake-up that is followed at once may seem to lie
 * ahead.
 */
static __always_inline u64 lasted(struct task_rec *t, u64 now)
{
	return now > t->began_ns ? now - t->began_ns : 0;
}

/* The time before `now` has been accounted for. */
static __always_inline void enter(struct task_rec *t, u32 state, u64 now)
{
	t->state = state;
	t->began_ns = now;
}

/* The location of a task's registers in its stack: the same for every task. It is a number only once it has
 * been read from memory. */
static __noinline void find_registers(struct task_struct *p)
{
	void *regs = (void *)bpf_task_pt_regs(p);
	u64 at = 0;

	bpf_probe_read_kernel(&at, sizeof(at), &regs);
	if (p->stack)
		registers_in_stack = at - (u64)p->stack;
}

/* The registers that a task entered the kernel with. */
static __always_inline struct pt_regs *registers_of(struct task_struct *p)
{
	u64 at = registers_in_stack;

	if (likely(at) && bpf_ksym_exists(bpf_rdonly_cast))
		return bpf_rdonly_cast(p->stack + at, bpf_core_type_id_kernel(struct pt_regs));
	return (void *)bpf_task_pt_regs(p);
}

/*
 * The system call that a task is in. Asking the kernel for its registers is a call, which takes 22 ns of a
 * switch if every return is made safe; reading them from its stack is no call.
 */
static __always_inline u32 syscall_of(struct task_struct *p)
{
	struct pt_regs *regs = registers_of(p);

	if (bpf_core_field_exists(regs->orig_ax))
		return regs->orig_ax;
	if (bpf_core_field_exists(regs->syscallno))
		return regs->syscallno;
	return NO_TID;
}

/* The first argument of the system call that a task is in. */
static __always_inline u64 first_argument(struct task_struct *p)
{
	struct pt_regs *regs = registers_of(p);

	if (bpf_core_field_exists(regs->di))
		return regs->di;
	if (bpf_core_field_exists(regs->orig_x0))
		return regs->orig_x0;
	return 0;
}

/* As an index into the table of system calls; 32-bit programs, which have numbers of their own, use its
 * second half. */
static __always_inline u32 place_of_syscall(struct task_struct *p)
{
	u32 nr = syscall_of(p);

	if (unlikely(nr >= SYSCALLS))
		return NO_TID;
	if (bpf_core_field_exists(struct thread_info, status)) /* x86 */
		return p->thread_info.status & TS_COMPAT ? SYSCALLS + nr : nr;
	return p->thread_info.flags & TIF_32BIT ? SYSCALLS + nr : nr; /* arm64 */
}

/* The state of a task that leaves its CPU in the middle of a system call, from user space's table. */
static __always_inline u32 state_of_syscall(struct task_rec *t, struct task_struct *p)
{
	u32 place = t->flags & KTHREAD ? NO_TID : place_of_syscall(p);

	return place < 2 * SYSCALLS ? block_state_of_syscall[place] : BLOCK_OTHER;
}

/*
 * Whether something keeps it from running without its choice: 0 if not. Linux 6.1 has a state of its own for
 * the v1 freezer and for suspending, before that it was a flag. The v2 freezer's stop is an interruptible
 * sleep. No other sleeper can have this signal pending.
 */
static __always_inline u32 held_state(struct task_rec *t, struct task_struct *p, u32 prev_state)
{
	if (unlikely(prev_state & (TASK_STOPPED | TASK_TRACED | TASK_FROZEN)))
		return prev_state & TASK_FROZEN ? FROZEN : STOPPED;
	if (prev_state & TASK_INTERRUPTIBLE)
		return unlikely(p->jobctl & JOBCTL_TRAP_FREEZE) ? FROZEN : 0;
	return !(t->flags & KTHREAD) && unlikely(p->flags & PF_FROZEN) ? FROZEN : 0;
}

/* By what holds it; otherwise by the object of its system call, and I/O if it cannot be interrupted. */
static __always_inline u32 block_state(struct task_rec *t, struct task_struct *p, u32 of_syscall, u32 prev_state)
{
	u32 state = of_syscall, held = held_state(t, p, prev_state);

	if (unlikely(held))
		return held;
	if (unlikely(state < BLOCK_FUTEX || state > BLOCK_OTHER))
		state = BLOCK_OTHER;
	if ((prev_state & TASK_UNINTERRUPTIBLE) && (state == BLOCK_PIPE || state == BLOCK_OTHER))
		state = BLOCK_IO;
	return state;
}

/*
 * The time of a wake-up. Reading the clock is the most expensive part of a wake-up, and the run queue's own
 * clock has been read for it under the same lock. That clock plus the lead of the monotonic clock over it
 * gives the time. The two run at the same rate except for NTP's at most 500 ppm, so the lead is measured
 * again after 2^20 ns.
 */
static __always_inline u64 wakeup_time(struct task_struct *p)
{
	struct cfs_rq *q;
	struct cpu_rec *c = cpu_rec(p->thread_info.cpu);
	u64 clock, now;

	if (!c || !bpf_core_field_exists(struct cfs_rq, rq))
		return bpf_ktime_get_ns();
	q = p->se.cfs_rq;
	clock = q ? q->rq->clock : 0;
	now = clock + c->lead_ns;
	if (unlikely(now - c->lead_at_ns > 1 << 20)) {
		now = bpf_ktime_get_ns();
		c->lead_ns = now - clock;
		c->lead_at_ns = now;
	}
	return now;
}

#endif
