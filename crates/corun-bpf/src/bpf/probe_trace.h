/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The trace: switches and wake-ups. On request it also has single waits that are long enough
 * (`least_wait_ns`), with the moves and the used-up budgets in them. It is off unless it is requested when
 * the probe is loaded.
 */
#ifndef CORUN_PROBE_TRACE_H
#define CORUN_PROBE_TRACE_H

static __always_inline void emit_event(u64 t_ns, u32 cpu, u8 kind, u8 left, u16 high, u32 prev, u32 next)
{
	struct trace_event *e;

	e = bpf_ringbuf_reserve(&trace, sizeof(*e), 0);
	if (!e) {
		__sync_fetch_and_add(&losses.trace_events, 1);
		return;
	}
	e->t_ns = t_ns;
	e->cpu = cpu;
	e->kind = kind;
	e->left = left;
	e->high = high;
	e->prev = prev;
	e->next = next;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
}

static __always_inline void emit(u64 now, u32 cpu, u8 kind, u8 left, u32 prev, u32 next)
{
	if (want_trace)
		emit_event(now, cpu, kind, left, 0, prev, next);
}

/* The length of something, up to three days. */
static __noinline void emit_length(u64 t_ns, u8 kind, u64 ns, u32 tid)
{
	if (ns >> 48)
		ns = (1ULL << 48) - 1;
	emit_event(t_ns, bpf_get_smp_processor_id(), kind, 0, ns >> 32, ns, tid);
}

/* A wait that has lasted for `ns` ends now, since the task has a CPU. */
static __always_inline void emit_wait(u64 now, u64 ns, u32 tid)
{
	if (ns >= control.least_wait_ns)
		emit_length(now, TRACE_WAITED, ns, tid);
}

/* Of a wait, the `ns` after `from` were its budgets' fault. */
static __always_inline void emit_throttled(u64 from, u64 ns, u32 tid)
{
	if (want_waits && ns)
		emit_length(from, TRACE_THROTTLED, ns, tid);
}

#endif
