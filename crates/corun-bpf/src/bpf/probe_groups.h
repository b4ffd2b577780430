/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Groups: the finest tenants that the probe can distinguish. User space names them, merges several into one
 * tenant, and returns the numbers of those that have gone.
 */
#ifndef CORUN_PROBE_GROUPS_H
#define CORUN_PROBE_GROUPS_H

ARRAY(groups, struct group_rec, 8192);

/* Numbers of groups that user space has returned. */
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

/* The number of a new group: an unused one if there is any; `max_groups` if there is none at all. */
static __always_inline u32 new_group(void)
{
	u32 index = next_group < max_groups ? __sync_fetch_and_add(&next_group, 1) : max_groups;

	if (index >= max_groups && bpf_map_pop_elem(&free_groups, &index))
		return max_groups;
	return index;
}

/* Cgroups that decide what belongs together, according to user space. A forgotten one only costs group
 * numbers. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct whereabouts);
	__type(value, u32);
} telling SEC(".maps");

#define ROOT_CGROUP 1 /* the number of each hierarchy's root */

struct cgroup_walk {
	struct list_head *at;
	struct list_head *end;
	u64 mixed;
	struct group_rec *into; /* where the cgroups are written down, if anywhere */
};

/* The next hierarchy of a css_set. A mounted v2 tree is among them, and known from elsewhere. */
static long next_hierarchy(u32 i, struct cgroup_walk *w)
{
	struct list_head *at = w->at;
	struct cgrp_cset_link *link;
	struct cgroup *cgroup;
	u64 id, hierarchy;
	u32 n;

	if (!at || at == w->end)
		return 1;
	link = (void *)at - bpf_core_field_offset(struct cgrp_cset_link, cgrp_link);
	w->at = BPF_CORE_READ(at, next);
	cgroup = BPF_CORE_READ(link, cgrp);
	hierarchy = BPF_CORE_READ(cgroup, root, hierarchy_id);
	if (!hierarchy)
		return 0;
	id = BPF_CORE_READ(cgroup, kn, id);
	w->mixed = (w->mixed ^ hierarchy << 56 ^ id) * 0x9e3779b97f4a7c15ULL;
	w->mixed ^= w->mixed >> 29;
	if (id == ROOT_CGROUP || !w->into)
		return 0;
	/* The count is in the record. The verifier follows a count on the stack through each of its values, and one
	 * in a map only once. */
	n = w->into->hierarchies;
	if (n < HIERARCHIES) {
		w->into->v1[n] = hierarchy << 56 | id;
		w->into->hierarchies = n + 1;
	}
	return 0;
}

/* The location of a task in the hierarchies of v1, mixed into one number and written to `into`. */
static __always_inline u64 v1_place(struct css_set *set, struct group_rec *into)
{
	struct list_head *links = (void *)set + bpf_core_field_offset(struct css_set, cgrp_links);
	struct cgroup_walk w = { .into = into, .end = links };

	w.at = BPF_CORE_READ(links, next);
	bpf_loop(32, next_hierarchy, &w, 0);
	return w.mixed;
}

/* The address of a kernel object as a number: it is one only once it has been read from memory. */
static __always_inline u64 address_of(const void *p)
{
	u64 address = 0;

	bpf_probe_read_kernel(&address, sizeof(address), &p);
	return address;
}

static __always_inline u32 pgid_of(struct task_struct *p)
{
	return BPF_CORE_READ(p, signal, pids[PIDTYPE_PGID], numbers[0].nr);
}

/* The group of a process group in its cgroups, a new one if it has none. */
__noinline u32 group_of(u64 task, u64 cgroups, u32 pgid)
{
	struct task_struct *p = (void *)task;
	struct css_set *set = (void *)cgroups;
	struct group_key key = {};
	struct group_rec *g;
	u32 *known, index;

	key.at.cgroup = BPF_CORE_READ(set, dfl_cgrp, kn, id);
	key.at.v1 = v1_place(set, NULL);
	if (!bpf_map_lookup_elem(&telling, &key.at))
		key.pgid = pgid;
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
	g->tgid = BPF_CORE_READ(p, tgid);
	bpf_probe_read_kernel_str(g->comm, sizeof(g->comm), &BPF_CORE_READ(p, group_leader)->comm);
	__builtin_memset(g->v1, 0, sizeof(g->v1));
	g->hierarchies = 0;
	if (key.at.v1)
		v1_place(set, g);
	barrier();
	g->tid = BPF_CORE_READ(p, pid); /* by which user space knows that the rest is there */
	if (bpf_map_update_elem(&group_of_key, &key, &index, BPF_NOEXIST_)) {
		known = bpf_map_lookup_elem(&group_of_key, &key); /* another CPU was faster, or the table is full */
		return known ? *known : index;
	}
	return index;
}

/* The group of a task: kernel threads by kind, the watcher, others by cgroups and process group. */
static __always_inline u32 resolve_group(struct task_struct *p, struct css_set *set, u32 pgid)
{
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
	return group_of((u64)p, (u64)set, pgid);
}

/* Puts a record into the group that its task belongs to now. A task that ends is in no process group any
 * more. */
static __always_inline void find_group(struct task_rec *t, struct task_struct *p)
{
	struct css_set *set = BPF_CORE_READ(p, cgroups);
	u32 pgid = pgid_of(p);

	t->cgroups = (u64)set;
	if (pgid)
		t->pgid = pgid;
	t->group = resolve_group(p, set, t->pgid);
}

/* The same for a new record. A newborn stays with its parent unless something separates them. */
static __always_inline void begin_group(struct task_rec *t, struct task_struct *p, struct task_rec *from)
{
	if (from && from->heirs && from->tgid != t->tgid) {
		t->flags |= STICKY;
		t->group = from->heirs;
		return;
	}
	t->heirs = from ? from->heirs : 0;
	if (from && from->flags & STICKY)
		t->flags |= STICKY;
	if (from && (from->flags & STICKY || (from->group >= GROUP_FIRST && from->pgid == pgid_of(p) &&
					      from->cgroups == (u64)BPF_CORE_READ(p, cgroups)))) {
		t->group = from->group;
		t->pgid = from->pgid;
		t->cgroups = from->cgroups;
	} else {
		find_group(t, p);
	}
}

/* The leader of a process group executes a program: the group takes its name. */
static __always_inline void rename_group(struct task_rec *t, struct task_struct *p)
{
	u32 group = t->group;
	struct group_rec *g;

	if (t->tgid != t->pgid || t->flags & STICKY || group < GROUP_FIRST)
		return;
	g = bpf_map_lookup_elem(&groups, &group);
	if (g && (!g->key.pgid || g->key.pgid == t->pgid))
		bpf_probe_read_kernel_str(g->comm, sizeof(g->comm), &p->comm);
}

#endif
