// SPDX-License-Identifier: GPL-2.0
/*
 * Nothing, at the two tracepoints that the probe sees at every switch of `perf bench sched pipe`: what watching costs there
 * before anything is done. `examples/floor.rs` attaches it, for `make bench`.
 */
#include "kernel_min.h"
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

SEC("tp_btf/sched_switch")
int on_switch(void *args)
{
	return 0;
}

SEC("tp_btf/sched_wakeup")
int on_wakeup(void *args)
{
	return 0;
}
