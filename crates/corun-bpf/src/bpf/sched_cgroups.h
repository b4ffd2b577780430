/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The sources of cells: cgroups, and requests from user space.
 */
#ifndef CORUN_SCHED_CGROUPS_H
#define CORUN_SCHED_CGROUPS_H

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CELLS);
	__type(key, u64);
	__type(value, u32);
} cell_of_cgroup SEC(".maps");

static __always_inline u32 cell_of(struct cgroup *cgrp)
{
	u64 id = cgrp->kn->id;
	u32 *cell = bpf_map_lookup_elem(&cell_of_cgroup, &id);

	return cell ? *cell : 0;
}

/* Takes a free cell and makes sure that it has queues. */
static __always_inline u32 new_cell(u32 parent, u32 weight)
{
	struct cell *above = cell_at(parent), *c;
	u32 i, k, n = llcs;

	if (above->depth >= DEPTH)
		return NOBODY;
	bpf_for(i, 1, CELLS) {
		c = cell_at(i);
		if (!__sync_bool_compare_and_swap(&c->used, 0, 1))
			continue;
		if (!c->made) {
			bpf_for(k, 0, n)
				if (scx_bpf_create_dsq(queue_of(i, k), -1))
					return NOBODY;
			c->made = 1;
		}
		forsake(i);
		c->parent = parent & (CELLS - 1);
		c->depth = above->depth + 1;
		c->weight = corun_clamp(weight, CORUN_LEAST_WEIGHT, CORUN_MOST_WEIGHT);
		c->vtime = vtime_now;
		c->cgroup = 0;
		c->parked_since_ns = above->parked_since_ns;
		c->ran_ns = 0;
		c->stretches = 0;
		c->preempted = 0;
		c->expired = 0;
		__builtin_memset(c->lengths, 0, sizeof(c->lengths));
		if (cells_used <= i)
			cells_used = i + 1;
		activate(i); /* still runnable tasks of the previous owner count */
		return i;
	}
	return NOBODY;
}

/*
 * A cell goes, and its number will be reused: cells that user space created within it are within the one
 * above from now on. Cells parked with it, which have the very same park time, stay parked only if the one
 * above is.
 */
static __always_inline void bequeath(u32 i)
{
	u32 above = cell_at(i)->parent, used = cells_used, k;
	u64 since = cell_at(i)->parked_since_ns;

	bpf_for(k, 1, used) {
		struct cell *c = cell_at(k);

		if (c->parent != i)
			continue;
		forsake(k);
		c->parent = above;
		c->depth = cell_at(above)->depth + 1;
		if (c->parked_since_ns == since)
			c->parked_since_ns = cell_at(above)->parked_since_ns;
		activate(k);
	}
	if (since)
		check_leases_in(SOON_NS);
}

static __always_inline void set_cell_weight(u32 i, u32 weight)
{
	cell_at(i)->weight = corun_clamp(weight, CORUN_LEAST_WEIGHT, CORUN_MOST_WEIGHT);
	activate(i);
}

SEC("struct_ops.s/corun_cgroup_init")
s32 BPF_PROG(corun_cgroup_init, struct cgroup *cgrp, struct scx_cgroup_init_args *args)
{
	int level = ((struct cgroup___scx *)cgrp)->level;
	u64 id = cgrp->kn->id;
	u32 cell = 0, parent = 0;

	if (level > 0) {
		struct cgroup *above = bpf_cgroup_ancestor(cgrp, level - 1);

		if (above) {
			parent = cell_of(above);
			bpf_cgroup_release(above);
		}
		cell = new_cell(parent, args->weight);
		if (cell == NOBODY) {
			__sync_fetch_and_add(&losses.cells, 1);
			cell = parent;
		} else {
			cell_at(cell)->cgroup = id;
		}
	}
	bpf_map_update_elem(&cell_of_cgroup, &id, &cell, 0);
	return 0;
}

SEC("struct_ops/corun_cgroup_exit")
void BPF_PROG(corun_cgroup_exit, struct cgroup *cgrp)
{
	u64 id = cgrp->kn->id;
	u32 i = cell_of(cgrp);

	if (i && cell_at(i)->cgroup == id) {
		bequeath(i);
		cell_at(i)->used = 0;
	}
	bpf_map_delete_elem(&cell_of_cgroup, &id);
}

SEC("struct_ops/corun_cgroup_move")
void BPF_PROG(corun_cgroup_move, struct task_struct *p, struct cgroup *from, struct cgroup *to)
{
	struct task *t = task_of(p);
	u64 from_vtime;

	if (!t || (p->flags & PF_KTHREAD))
		return;
	t->cgroup_cell = cell_of(to);
	if (t->flags & (OWN_CELL | PROTECTED))
		return;
	from_vtime = cell_at(t->cell)->task_vtime;
	move_to_cell(t, t->cgroup_cell);
	task_set_vtime(p, corun_vtime_move(SCX(p).dsq_vtime, from_vtime, cell_at(t->cell)->task_vtime));
}

SEC("struct_ops/corun_cgroup_set_weight")
void BPF_PROG(corun_cgroup_set_weight, struct cgroup *cgrp, u32 weight)
{
	u32 i = cell_of(cgrp);

	if (i && cell_at(i)->cgroup == cgrp->kn->id)
		set_cell_weight(i, weight);
}

/* Requests from user space; each is run by BPF_PROG_TEST_RUN. */

SEC("syscall")
int cell_new(struct cell_args *args)
{
	u32 cell = new_cell(args->parent, args->weight);

	args->cell = cell;
	return cell == NOBODY;
}

SEC("syscall")
int cell_free(struct cell_args *args)
{
	struct cell *c = cell_at(args->cell);

	if (args->cell == 0 || args->cell >= CELLS || c->cgroup || c->own || c->queued || c->members)
		return 1;
	c->parked_since_ns = 0;
	c->used = 0;
	return 0;
}

SEC("syscall")
int cell_weight(struct cell_args *args)
{
	if (args->cell == 0 || args->cell >= CELLS)
		return 1;
	set_cell_weight(args->cell, args->weight);
	return 0;
}

static __always_inline bool is_within(u32 i, u32 ancestor)
{
	u32 level;

	bpf_for(level, 0, DEPTH + 1) {
		if (i == ancestor)
			return true;
		if (!i)
			return false;
		i = cell_at(i)->parent;
	}
	return false;
}

/* Parks a cell with everything in it, or lets it run again. */
SEC("syscall")
int cell_park(struct cell_args *args)
{
	u32 n = scx_bpf_nr_cpu_ids(), used = cells_used, cell = args->cell, i;
	u64 now = bpf_ktime_get_ns(), since = args->parked ? now : 0;

	if (cell == 0 || cell >= CELLS)
		return 1;
	bpf_for(i, 1, used) {
		struct cell *c = cell_at(i);

		if (!c->used || !is_within(i, cell))
			continue;
		if (!since || !c->parked_since_ns)
			c->parked_since_ns = since;
	}
	if (!since) {
		kick_idle();
		check_leases_in(SOON_NS);
		return 0;
	}
	bpf_for(i, 0, n)
		if (cpu_at(i)->cell < CELLS && cell_at(cpu_at(i)->cell)->parked_since_ns)
			scx_bpf_kick_cpu(i, SCX_KICK_PREEMPT);
	check_leases_in(LEASE_CHECK_NS);
	return 0;
}

#endif
