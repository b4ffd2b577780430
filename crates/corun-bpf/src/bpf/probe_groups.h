/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Groups: the finest tenants that the probe can tell apart. User space names them, merges several into one tenant, and gives
 * back the numbers of those that have gone.
 */
#ifndef CORUN_PROBE_GROUPS_H
#define CORUN_PROBE_GROUPS_H

ARRAY(groups, struct group_rec, 8192);

/* Numbers of groups that user space has given back. */
struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, 8192);
	__type(value, u32);
} free_groups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct group_key);
	__type(value, u32);
} group_of_key SEC(".maps");

u32 next_group = GROUP_FIRST;

/* The number of a new group: one that was never used while there is one; `max_groups` when there is none at all. */
static __always_inline u32 new_group(void)
{
	u32 index = next_group < max_groups ? __sync_fetch_and_add(&next_group, 1) : max_groups;

	if (index >= max_groups && bpf_map_pop_elem(&free_groups, &index))
		return max_groups;
	return index;
}

/* The group of a task: kernel threads by sort, the watcher, others by cgroup, process group and command. */
static __noinline u32 resolve_group(struct task_struct *p)
{
	struct group_key key = {};
	struct group_rec *g;
	u32 *known, index;

	if (BPF_CORE_READ(p, flags) & PF_KTHREAD) {
		char comm[8] = {};

		bpf_probe_read_kernel(comm, sizeof(comm), &p->comm);
		if (comm[0] == 'k' && comm[1] == 's' && comm[2] == 'o' && comm[3] == 'f')
			return GROUP_SOFTIRQ;
		if (comm[0] == 'k' && comm[1] == 'w' && comm[2] == 'o' && comm[3] == 'r')
			return GROUP_WORKQUEUE;
		return GROUP_KERNEL;
	}
	if (watcher_tgid && BPF_CORE_READ(p, tgid) == watcher_tgid)
		return GROUP_WATCHER;
	key.cgroup = BPF_CORE_READ(p, cgroups, dfl_cgrp, kn, id);
	key.pgid = BPF_CORE_READ(p, signal, pids[PIDTYPE_PGID], numbers[0].nr);
	bpf_probe_read_kernel_str(key.comm, sizeof(key.comm), &BPF_CORE_READ(p, group_leader)->comm);
	known = bpf_map_lookup_elem(&group_of_key, &key);
	if (known)
		return *known;
	index = new_group();
	g = index < max_groups ? bpf_map_lookup_elem(&groups, &index) : NULL;
	if (!g) {
		__sync_fetch_and_add(&losses.groups, 1);
		return GROUP_UNKNOWN;
	}
	g->key = key;
	barrier();
	g->tid = BPF_CORE_READ(p, pid); /* by which user space knows that the rest is there */
	if (bpf_map_update_elem(&group_of_key, &key, &index, BPF_NOEXIST_)) {
		known = bpf_map_lookup_elem(&group_of_key, &key); /* another CPU was faster, or the table is full */
		return known ? *known : index;
	}
	return index;
}

#endif
