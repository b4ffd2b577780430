/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Culprits: who held the CPU while a task waited. Each CPU has a log of its occupants, which is walked when a
 * wait ends. Every nanosecond of the wait is charged to the group that held the CPU then; time that the log
 * does not reach is unattributed.
 */
#ifndef CORUN_PROBE_CULPRITS_H
#define CORUN_PROBE_CULPRITS_H

/* A place for a pair: an unused one if there is any; `max_pairs` if there is none at all. */
static __always_inline u32 new_pair(void)
{
	u32 index = next_pair < max_pairs ? __sync_fetch_and_add(&next_pair, 1) : max_pairs;

	if (index >= max_pairs && bpf_map_pop_elem(&free_pairs, &index))
		return max_pairs;
	return index;
}

__noinline u32 charge_beyond(struct task_rec *t, u32 group, u64 ns)
{
	struct pair pair = { .victim = t ? t->group : GROUP_UNKNOWN, .culprit = group };
	u32 *index = bpf_map_lookup_elem(&index_of_pair, &pair), next;
	struct pair_steal *steal;

	if (!t)
		return 0;
	if (!index) {
		next = new_pair();
		steal = bpf_map_lookup_elem(&overflow_steal, &next);
		if (steal) {
			steal->pair = pair;
			/* If another CPU was faster, nothing is added to this one until it is returned. */
			bpf_map_update_elem(&index_of_pair, &pair, &next, BPF_NOEXIST_);
			index = bpf_map_lookup_elem(&index_of_pair, &pair);
		}
	}
	steal = index ? bpf_map_lookup_elem(&overflow_steal, index) : NULL;
	if (steal) {
		__sync_fetch_and_add(&steal->ns, ns);
		t->cur.others_ns += ns;
	} else {
		__sync_fetch_and_add(&losses.pairs, 1);
		t->cur.unattributed_ns += ns;
	}
	return 0;
}

__noinline u32 charge_further(struct task_rec *t, u32 group, u64 ns)
{
	struct culprit *c;

	if (!t)
		return 0;
	c = t->cur.culprits;
	if (group == GROUP_UNKNOWN) {
		t->cur.unattributed_ns += ns;
		return 0;
	}
	for (int i = 0; i < CULPRITS; i++) {
		if (c[i].group == group || !c[i].ns) {
			struct culprit found = { .ns = c[i].ns + ns, .group = group };

			/* It is likely to be the next one, too, and the search starts at the front. */
			c[i] = c[0];
			c[0] = found;
			return 0;
		}
	}
	charge_beyond(t, group, ns);
	return 0;
}

/* `group` held the CPU for `ns` of the task's wait. Slots fill from the front; a used slot has ns > 0. */
static __always_inline void charge(struct task_rec *t, u32 group, u64 ns)
{
	if (likely(t->cur.culprits[0].group == group && group != GROUP_UNKNOWN))
		t->cur.culprits[0].ns += ns;
	else if (ns)
		charge_further(t, group, ns);
}

struct walk {
	struct task_rec *t;
	struct cpu_rec *c;
	u64 from_ns;
	u64 to_ns;
	u64 at; /* the next occupancy to examine is the one before this */
	u64 oldest;
};

/* One step back in the log; 1 when the wait is explained. */
static long walk_step(u32 i, struct walk *w)
{
	struct occupancy *o;
	u64 start;

	if (w->at == w->oldest)
		return 1;
	w->at--;
	o = &w->c->log[w->at & (OCCUPANTS - 1)];
	start = o->start_ns;
	if (start < w->to_ns) {
		if (start < w->from_ns)
			start = w->from_ns;
		charge(w->t, o->group, w->to_ns - start);
		w->to_ns = start;
	}
	return w->to_ns <= w->from_ns;
}

__noinline u32 charge_many(struct task_rec *t, struct cpu_rec *c, u64 from_ns, u64 to_ns)
{
	struct walk w = { .t = t, .c = c, .from_ns = from_ns, .to_ns = to_ns };

	if (!t || !c)
		return 0;
	w.at = c->head;
	w.oldest = w.at > OCCUPANTS ? w.at - OCCUPANTS : 0;
	bpf_loop(OCCUPANTS, walk_step, &w, 0);
	t->cur.unattributed_ns += w.to_ns - w.from_ns;
	return 0;
}

/* Charges the wait [from, to) to the groups that held the CPU. Most waits had one occupant: the newest. */
static __always_inline void charge_wait(struct task_rec *t, struct cpu_rec *c, u64 from_ns, u64 to_ns)
{
	if (from_ns >= to_ns)
		return;
	if (!c) {
		t->cur.unattributed_ns += to_ns - from_ns;
		return;
	}
	if (likely(c->occupied_ns <= from_ns))
		charge(t, c->group, to_ns - from_ns);
	else
		charge_many(t, c, from_ns, to_ns);
}

/* From now on `group` holds the CPU. Before its first occupancy, it was GROUP_UNKNOWN. */
static __always_inline void occupy(struct cpu_rec *c, u64 now, u32 group)
{
	struct occupancy *o;

	if (c->group == group)
		return;
	o = &c->log[c->head & (OCCUPANTS - 1)];
	o->start_ns = now;
	o->group = group;
	c->occupied_ns = now;
	c->group = group;
	c->head++;
}

/* It was `group` that has held the CPU since the newest occupancy began. */
static __noinline void relabel(struct cpu_rec *c, u32 group)
{
	if (!c->head)
		return occupy(c, 0, group);
	c->log[(c->head - 1) & (OCCUPANTS - 1)].group = group;
	c->group = group;
}

#endif
