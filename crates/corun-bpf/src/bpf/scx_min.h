/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The small part of the kernel's sched_ext interface that corun's scheduler uses, from Linux 6.12 to 7.x.
 *
 * Types: libbpf matches the members of `struct sched_ext_ops` by name against the running kernel's, and every access to
 * the other types is relocated (CO-RE), so a part of each is enough. Values of enums that have moved between versions
 * are asked for by name, too.
 *
 * Functions: a kfunc that was renamed or got other arguments is declared weak under each of its names, and one inline
 * function of ours calls the one that is there; the verifier removes the rest. libbpf ignores what follows `___` in a
 * name when it looks for the kernel's function.
 *
 * | here | 6.12 | since |
 * | --- | --- | --- |
 * | dsq_insert | scx_bpf_dispatch | 6.13 scx_bpf_dsq_insert, 6.19 returns bool |
 * | dsq_insert_vtime | scx_bpf_dispatch_vtime | 6.13 scx_bpf_dsq_insert_vtime, 6.19 arguments in a struct |
 * | dsq_move_to_local | scx_bpf_consume | 6.13 scx_bpf_dsq_move_to_local, 7.1 with flags |
 * | task_set_slice, task_set_vtime | a write to the task | 6.19 scx_bpf_task_set_slice, scx_bpf_task_set_dsq_vtime |
 */
#ifndef CORUN_SCX_MIN_H
#define CORUN_SCX_MIN_H

#include "kernel_min.h"

/* What the helpers take; opaque, of the sizes that are part of the interface. */
struct bpf_spin_lock {
	u32 opaque;
};
struct bpf_timer {
	u64 opaque[2];
} __attribute__((aligned(8)));
struct bpf_iter_num {
	u64 opaque[1];
} __attribute__((aligned(8)));

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* Flavors (`___scx`) stand for the kernel's types of the same name; kernel_min.h has other parts of them. */
struct sched_ext_entity {
	u32 flags;
	u32 weight;
	u64 slice;
	u64 dsq_vtime;
};

struct sched_entity___scx {
	u64 sum_exec_runtime;
};

struct task_struct___scx {
	struct sched_ext_entity scx;
	struct sched_entity___scx se;
	int nr_cpus_allowed;
	const struct cpumask *cpus_ptr;
};

struct cgroup___scx {
	int level;
	struct kernfs_node *kn;
};

struct scx_init_task_args {
	bool fork;
	struct cgroup *cgroup; /* only if cgroups can be scheduled (CONFIG_EXT_GROUP_SCHED) */
};

struct scx_exit_task_args;

struct scx_cgroup_init_args {
	u32 weight;
};

enum scx_exit_kind {
	SCX_EXIT_NONE,
};

struct scx_exit_info {
	enum scx_exit_kind kind;
	const char *reason;
	char *msg;
};

/* Only the names count: the kernel's values are inserted at load time. Ours are small, because clang before
 * version 15 cannot describe larger ones. */
enum scx_enq_flags {
	SCX_ENQ_WAKEUP = 1,
	SCX_ENQ_PREEMPT = 2,
};

enum scx_kick_flags {
	SCX_KICK_IDLE = 1,
	SCX_KICK_PREEMPT = 2,
};

enum scx_ent_flags {
	SCX_TASK_QUEUED = 1,
};

#pragma clang attribute pop

/* Members that a kernel lacks must be left empty before loading; see src/scheduler.rs. */
struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	void (*runnable)(struct task_struct *p, u64 enq_flags);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, bool runnable);
	void (*quiescent)(struct task_struct *p, u64 deq_flags);
	void (*set_weight)(struct task_struct *p, u32 weight);
	s32 (*init_task)(struct task_struct *p, struct scx_init_task_args *args);
	void (*exit_task)(struct task_struct *p, struct scx_exit_task_args *args);
	void (*enable)(struct task_struct *p);
	s32 (*cgroup_init)(struct cgroup *cgrp, struct scx_cgroup_init_args *args);
	void (*cgroup_exit)(struct cgroup *cgrp);
	void (*cgroup_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);
	void (*cgroup_set_weight)(struct cgroup *cgrp, u32 weight);
	void (*cpu_online)(s32 cpu);
	void (*cpu_offline)(s32 cpu);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u64 flags;
	u32 timeout_ms;
	char name[128];
};

/* Built-in queues; these numbers are part of the interface and have not moved. */
#define SCX_DSQ_LOCAL ((1ULL << 63) | 2)

/* Lets the scheduler put a task that a CPU would otherwise keep running into a queue; has not moved,
 * either. */
#define SCX_OPS_ENQ_LAST 2ULL

s32 scx_bpf_create_dsq(u64 dsq_id, s32 node) __ksym;
s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags, bool *is_idle) __ksym;
s32 scx_bpf_pick_idle_cpu(const cpumask_t *cpus_allowed, u64 flags) __ksym;
void scx_bpf_kick_cpu(s32 cpu, u64 flags) __ksym;
s32 scx_bpf_dsq_nr_queued(u64 dsq_id) __ksym;
s32 scx_bpf_task_cpu(const struct task_struct *p) __ksym;
u32 scx_bpf_nr_cpu_ids(void) __ksym;

struct bpf_iter_scx_dsq {
	u64 opaque[6];
} __attribute__((aligned(8)));
int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 dsq_id, u64 flags) __ksym;
struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it) __ksym;
void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it) __ksym;

struct cgroup *bpf_cgroup_ancestor(struct cgroup *cgrp, int level) __ksym;
void bpf_cgroup_release(struct cgroup *cgrp) __ksym;
void bpf_rcu_read_lock(void) __ksym;
void bpf_rcu_read_unlock(void) __ksym;

/* Where the kernel's own name ends in `___v2`, a suffix of ours keeps libbpf from cutting that off. */
bool scx_bpf_dsq_insert___v2___named(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags) __ksym __weak;
bool scx_bpf_dsq_insert___bool(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags) __ksym __weak;
void scx_bpf_dsq_insert___void(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags) __ksym __weak;
void scx_bpf_dispatch___old(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags) __ksym __weak;

static __always_inline void dsq_insert(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags)
{
	if (bpf_ksym_exists(scx_bpf_dsq_insert___v2___named))
		scx_bpf_dsq_insert___v2___named(p, dsq_id, slice, enq_flags);
	else if (bpf_ksym_exists(scx_bpf_dsq_insert___bool))
		scx_bpf_dsq_insert___bool(p, dsq_id, slice, enq_flags);
	else if (bpf_ksym_exists(scx_bpf_dsq_insert___void))
		scx_bpf_dsq_insert___void(p, dsq_id, slice, enq_flags);
	else
		scx_bpf_dispatch___old(p, dsq_id, slice, enq_flags);
}

void scx_bpf_dsq_insert_vtime___void(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime, u64 enq_flags) __ksym __weak;
void scx_bpf_dispatch_vtime___old(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime, u64 enq_flags) __ksym __weak;
struct scx_bpf_dsq_insert_vtime_args {
	u64 dsq_id;
	u64 slice;
	u64 vtime;
	u64 enq_flags;
} __attribute__((preserve_access_index));
bool __scx_bpf_dsq_insert_vtime(struct task_struct *p, struct scx_bpf_dsq_insert_vtime_args *args) __ksym __weak;

static __always_inline void dsq_insert_vtime(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime, u64 enq_flags)
{
	if (bpf_ksym_exists(__scx_bpf_dsq_insert_vtime)) {
		struct scx_bpf_dsq_insert_vtime_args args = {
			.dsq_id = dsq_id,
			.slice = slice,
			.vtime = vtime,
			.enq_flags = enq_flags,
		};
		__scx_bpf_dsq_insert_vtime(p, &args);
	} else if (bpf_ksym_exists(scx_bpf_dsq_insert_vtime___void)) {
		scx_bpf_dsq_insert_vtime___void(p, dsq_id, slice, vtime, enq_flags);
	} else {
		scx_bpf_dispatch_vtime___old(p, dsq_id, slice, vtime, enq_flags);
	}
}

bool scx_bpf_dsq_move_to_local___v2___named(u64 dsq_id, u64 enq_flags) __ksym __weak;
bool scx_bpf_dsq_move_to_local___flags(u64 dsq_id, u64 enq_flags) __ksym __weak;
bool scx_bpf_dsq_move_to_local___plain(u64 dsq_id) __ksym __weak;
bool scx_bpf_consume___old(u64 dsq_id) __ksym __weak;

static __always_inline bool dsq_move_to_local(u64 dsq_id)
{
	if (bpf_ksym_exists(scx_bpf_dsq_move_to_local___v2___named))
		return scx_bpf_dsq_move_to_local___v2___named(dsq_id, 0);
	if (bpf_ksym_exists(scx_bpf_dsq_move_to_local___flags))
		return scx_bpf_dsq_move_to_local___flags(dsq_id, 0);
	if (bpf_ksym_exists(scx_bpf_dsq_move_to_local___plain))
		return scx_bpf_dsq_move_to_local___plain(dsq_id);
	return scx_bpf_consume___old(dsq_id);
}

bool scx_bpf_task_set_slice___new(struct task_struct *p, u64 slice) __ksym __weak;
bool scx_bpf_task_set_dsq_vtime___new(struct task_struct *p, u64 vtime) __ksym __weak;

#define SCX(p) (((struct task_struct___scx *)(p))->scx)

static __always_inline void task_set_slice(struct task_struct *p, u64 slice)
{
	if (bpf_ksym_exists(scx_bpf_task_set_slice___new))
		scx_bpf_task_set_slice___new(p, slice);
	else
		SCX(p).slice = slice;
}

static __always_inline void task_set_vtime(struct task_struct *p, u64 vtime)
{
	if (bpf_ksym_exists(scx_bpf_task_set_dsq_vtime___new))
		scx_bpf_task_set_dsq_vtime___new(p, vtime);
	else
		SCX(p).dsq_vtime = vtime;
}

#endif
