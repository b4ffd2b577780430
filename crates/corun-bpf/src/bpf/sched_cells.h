/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Cells: how much of the machine each deserves, and whose turn it is.
 *
 * Shares follow cgroup v2's cpu.weight, over all levels. A cell gets the part of its parent's share that its
 * weight is of the sum over everything runnable there: active child cells, and the parent's own runnable
 * tasks, each with the weight of its nice value. The product of these parts down from the root is its share
 * of the machine, and its virtual time advances by time / share. The cell with the lowest virtual time has
 * had least of its share.
 *
 * A cell is active while anything in it is runnable. `activate` brings a cell and its ancestors in line with
 * that under a lock. Anybody may call it at any time, and it does nothing if nothing has changed. So no order
 * of events can leave a wrong sum behind.
 *
 * Limits: shares hold over the whole machine. A tenant of two threads that wait for each other uses up its
 * share twice as fast while both run. A tenant that is busy on one CPU comes first there; the kernel, which
 * shares per CPU, alternates them. A cell of few tasks and a large share cannot use it on more CPUs than it
 * has tasks; the others get the rest in proportion. Finding the next cell visits every active one. Its own
 * runnable tasks count toward a cell's weight when they compete with child cells, as in the kernel.
 */
#ifndef CORUN_SCHED_CELLS_H
#define CORUN_SCHED_CELLS_H

/* The whole machine. It is large, so that a ten-thousandth of it is still precise to a per mille. */
#define ROOT_SHARE (CORUN_MOST_WEIGHT * CORUN_SHARE_UNIT)

struct cell cells[CELLS];
u64 active_cells[CELL_WORDS]; /* the cells that have runnable tasks of their own; the root always counts as one */
u64 vtime_now; /* virtual time of the cell that was dispatched last */
u32 cells_used = 1; /* no cell at or beyond this number was ever used */

struct tree_lock {
	struct bpf_spin_lock lock;
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct tree_lock);
} tree SEC(".maps");

/* A cell by its number. It is assembly, because the verifier may not know the bound even if the compiler
 * does. */
static __always_inline struct cell *cell_at(u64 i)
{
	asm volatile("%0 &= %1" : "+r"(i) : "i"(CELLS - 1));
	return &cells[i];
}

static __always_inline void activate(u32 i)
{
	u32 zero = 0, level;
	struct tree_lock *t = bpf_map_lookup_elem(&tree, &zero);

	if (!t)
		return;
	bpf_for(level, 0, DEPTH + 1) {
		struct cell *c = cell_at(i), *parent = cell_at(c->parent);
		u64 *word = &active_cells[(i / 64) % CELL_WORDS], bit = 1ULL << (i % 64);
		bool changed;
		u32 counted;

		if (i == 0)
			break;
		bpf_spin_lock(&t->lock);
		if (c->own)
			*word |= bit;
		else
			*word &= ~bit;
		counted = c->own || c->children ? c->weight : 0;
		changed = counted != c->counted;
		parent->children += counted - c->counted;
		c->counted = counted;
		bpf_spin_unlock(&t->lock);
		if (!changed)
			break;
		i = c->parent;
	}
}

/* A cell gets another parent: the previous one does not count it any more, even if some of its tasks are
 * still runnable. */
static __always_inline void forsake(u32 i)
{
	u32 zero = 0;
	struct tree_lock *t = bpf_map_lookup_elem(&tree, &zero);
	struct cell *c = cell_at(i), *parent = cell_at(c->parent);
	u32 above = c->parent;

	if (!t)
		return;
	bpf_spin_lock(&t->lock);
	parent->children -= c->counted;
	c->counted = 0;
	bpf_spin_unlock(&t->lock);
	activate(above);
}

/* A task starts (joins) or stops counting as runnable in a cell. */
static __always_inline void join(u32 i, u32 weight)
{
	if (!__sync_fetch_and_add(&cell_at(i)->own, weight))
		activate(i);
}

static __always_inline void leave(u32 i, u32 weight)
{
	if (__sync_fetch_and_sub(&cell_at(i)->own, weight) == weight)
		activate(i);
}

/* The part of the machine that a cell's own tasks deserve together now, out of ROOT_SHARE. */
static __always_inline u64 share_of(u32 i)
{
	struct cell *c = cell_at(i);
	u64 own = c->own, children = c->children, share = ROOT_SHARE;
	u32 level;

	if (own && children)
		share = share * own / (own + children);
	bpf_for(level, 0, DEPTH + 1) {
		struct cell *parent = cell_at(c->parent);
		u64 weight = c->weight, sum = (u64)parent->own + parent->children;

		if (i == 0)
			break;
		if (sum > weight)
			share = share * weight / sum;
		i = c->parent;
		c = parent;
	}
	return share ? share : 1;
}

static __always_inline void advance(struct cell *c, u64 by)
{
	__sync_fetch_and_add(&c->vtime, by);
}

/* Lets a cell that was away keep at most `credit` of its unused CPU time. */
static __always_inline void catch_up(struct cell *c, u64 credit, u64 share)
{
	u64 before = c->vtime, after = corun_vtime_join(before, vtime_now, credit, share);

	if (after != before)
		__sync_val_compare_and_swap(&c->vtime, before, after);
}

static __always_inline u64 parked_until_ns(struct cell *c)
{
	u64 since = c->parked_since_ns, limit = since + park_limit_ns;

	if (!since)
		return 0;
	return corun_before(limit, control.lease_until_ns) ? limit : control.lease_until_ns;
}

/* The place of the only bit that is set in x. */
static const u8 place_of[64] = {
	0, 1, 48, 2, 57, 49, 28, 3, 61, 58, 50, 42, 38, 29, 17, 4, 62, 55, 59, 36, 53, 51, 43, 22, 45, 39, 33, 30, 24, 18, 12, 5,
	63, 47, 56, 27, 60, 41, 37, 16, 54, 35, 52, 21, 44, 32, 23, 11, 46, 26, 40, 15, 34, 20, 31, 10, 25, 14, 19, 9, 13, 8, 7, 6,
};
#define PLACE(x) place_of[((x) * 0x03f79d71b4cb0a89ULL) >> 58]

/*
 * The cell with waiting tasks that follows `*i` in the order of virtual times, and of numbers among equals;
 * `first` for the very first. NOBODY if there is none.
 */
static __always_inline u32 next_cell(bool first, u64 after_vtime, u32 after, u64 now, u64 *vtime)
{
	u32 best = NOBODY, words = (cells_used + 63) / 64, w, k;
	u64 best_vtime = 0;

	if (words > CELL_WORDS)
		words = CELL_WORDS;
	bpf_for(w, 0, words) {
		u64 bits = active_cells[w % CELL_WORDS];

		if (w == 0)
			bits |= 1;
		bpf_for(k, 0, 64) {
			u64 low = bits & -bits, v;
			struct cell *c;
			u32 i;

			if (!low)
				break;
			bits ^= low;
			i = w * 64 + PLACE(low);
			c = cell_at(i);
			if (!c->queued || !corun_may_run(now, parked_until_ns(c), 0))
				continue;
			v = c->vtime;
			if (!first && (corun_before(v, after_vtime) || (v == after_vtime && i <= after)))
				continue;
			if (best == NOBODY || corun_before(v, best_vtime)) {
				best = i;
				best_vtime = v;
			}
		}
	}
	*vtime = best_vtime;
	return best;
}

#endif
