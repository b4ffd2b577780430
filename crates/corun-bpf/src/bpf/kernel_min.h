/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The few kernel types that corun's BPF programs touch. Every access is relocated at load time against the
 * running kernel's BTF (CO-RE), so only names matter here, not offsets; a generated vmlinux.h would be 3 MB
 * for the same 40 lines.
 */
#ifndef CORUN_KERNEL_MIN_H
#define CORUN_KERNEL_MIN_H

typedef unsigned char __u8, u8;
typedef unsigned short __u16, u16;
typedef unsigned int __u32, u32;
typedef unsigned long long __u64, u64;
typedef signed char __s8, s8;
typedef short __s16, s16;
typedef int __s32, s32;
typedef long long __s64, s64;
typedef __u16 __be16; /* the helpers' prototypes name these three */
typedef __u32 __be32, __wsum;
typedef _Bool bool;
#define true 1
#define false 0

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node {
	u64 id;
};

struct list_head {
	struct list_head *next;
};

struct cgroup_root {
	int hierarchy_id;
};

struct cgroup {
	struct kernfs_node *kn;
	struct cgroup_root *root;
};

/* The location of a task in all hierarchies at once: the v2 tree, and a list with a link for each. */
struct css_set {
	struct cgroup *dfl_cgrp;
	struct list_head cgrp_links;
};

struct cgrp_cset_link {
	struct cgroup *cgrp;
	struct list_head cgrp_link;
};

struct upid {
	int nr;
};

struct pid {
	struct upid numbers[1];
};

/* What the threads of a process share. */
struct signal_struct {
	struct list_head thread_head;
	struct pid *pids[4];
};

struct thread_info {
	unsigned long flags;
	u32 status; /* x86 */
	u32 cpu;
};

struct timerqueue_node {
	s64 expires;
};

struct hrtimer_clock_base {
	s64 offset;
};

struct hrtimer {
	struct timerqueue_node node;
	struct hrtimer_clock_base *base;
};

struct task_group;

struct rt_rq {
	int rt_throttled;
	u64 rt_time;
	u64 rt_runtime;
	struct task_group *tg;
};

struct rq {
	u64 clock;
	struct rt_rq rt;
};

struct cfs_rq {
	struct rq *rq;
	int throttle_count;
	u64 throttled_clock_self;
	u64 throttled_clock_self_time;
	struct task_group *tg;
};

struct cfs_bandwidth {
	u64 period;
	u64 quota;
	struct hrtimer period_timer;
};

struct rt_bandwidth {
	s64 rt_period;
	struct hrtimer rt_period_timer;
};

/* Tasks that share CPU time, with a queue for each CPU. */
struct task_group {
	struct cfs_rq **cfs_rq;
	struct task_group *parent;
	struct cfs_bandwidth cfs_bandwidth;
	struct rt_bandwidth rt_bandwidth;
};

struct sched_rt_entity {
	struct sched_rt_entity *parent;
	struct rt_rq *rt_rq; /* the queue that it is in */
};

struct sched_dl_entity {
	unsigned int dl_throttled : 1;
	unsigned int dl_yielded : 1;
	struct hrtimer dl_timer;
};

struct sched_entity {
	struct cfs_rq *cfs_rq;
	unsigned char sched_delayed;
};

/* Through the typedef, since clang describes a struct that is only pointed to as unknown, which matches nothing. */
typedef struct cpumask {
	unsigned long bits[1];
} cpumask_t;

struct task_struct {
	struct thread_info thread_info;
	unsigned int __state;
	unsigned int flags;
	void *stack;
	/* Bytes since Linux 7.3. It is unsigned, because libbpf adapts the width of a load only then. */
	unsigned int on_cpu;
	unsigned int on_rq;
	int prio; /* of the class that it runs in */
	struct sched_entity se;
	struct task_group *sched_task_group;
	const void *cpus_ptr;
	int exit_code;
	struct sched_rt_entity rt;
	struct sched_dl_entity dl;
	unsigned long jobctl;
	int pid;
	int tgid;
	struct css_set *cgroups;
	struct signal_struct *signal;
	struct list_head thread_node;
	struct task_struct *group_leader;
	char comm[16];
};

/* One name per architecture for "the system call this task is in". */
struct pt_regs {
	unsigned long orig_ax; /* x86 */
	unsigned long di; /* x86 */
	s32 syscallno; /* arm64 */
	u64 orig_x0; /* arm64 */
};

struct hrtimer_sleeper {
	struct hrtimer timer;
	struct task_struct *task;
};

struct bpf_iter_meta;

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop

/* Since Linux 6.2: the content of an address, as a kernel type. The verifier makes it a move, not a call. */
extern void *bpf_rdonly_cast(const void *at, u32 type) __attribute__((section(".ksyms"), weak));

enum { BPF_NOEXIST_ = 1 };

#define TASK_INTERRUPTIBLE 0x01
#define TASK_UNINTERRUPTIBLE 0x02
#define TASK_STOPPED 0x04
#define TASK_TRACED 0x08
#define TASK_DEAD 0x80
#define PF_EXITING 0x00000004
#define TASK_FROZEN 0x8000 /* since Linux 6.1 */
#define PF_FROZEN 0x00010000 /* until then; of no user's task since */
#define PF_KTHREAD 0x00200000
#define JOBCTL_TRAP_FREEZE (1UL << 23)
#define MAX_RT_PRIO 100 /* below it real-time, below 0 deadline */
#define TS_COMPAT 0x02
#define TIF_32BIT (1UL << 22) /* arm64 */
#define PIDTYPE_PGID 2

#endif
