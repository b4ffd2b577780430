// SPDX-License-Identifier: GPL-2.0
/*
 * Which process started which. The kernel takes a second to verify the probe. Meanwhile processes of the subject may end, and their
 * children get other parents. This program is verified in a few milliseconds, so it sees the births in between.
 */
#include "kernel_min.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

enum { BPF_MAP_TYPE_RINGBUF = 27, BPF_RB_NO_WAKEUP = 1 };

struct birth {
	u32 parent;
	u32 child;
};

/* Room for 100,000 processes: more than a machine starts while a probe is loaded. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 2 << 20);
} births SEC(".maps");

u64 lost = 0;

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	struct birth *b;

	if (parent->tgid == child->tgid) /* a thread */
		return 0;
	b = bpf_ringbuf_reserve(&births, sizeof(*b), 0);
	if (!b) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	b->parent = parent->tgid;
	b->child = child->tgid;
	bpf_ringbuf_submit(b, BPF_RB_NO_WAKEUP);
	return 0;
}
