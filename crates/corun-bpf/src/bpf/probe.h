/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The data that the probe shares with user space: records in memory-mapped array maps, and the control block.
 * `src/layout.rs` mirrors this file; a test compares the sizes.
 */
#ifndef CORUN_PROBE_H
#define CORUN_PROBE_H

#define CULPRITS 8 /* culprit groups kept per task; what is beyond goes to `others` and the group matrix */
#define OCCUPANTS 2048 /* occupancies remembered per CPU; a power of two */
#define BUCKETS 24 /* of a histogram, the last is overflow; as in corun-model */
#define HIERARCHIES 12 /* of cgroup v1 in which a group that has ended can still be named */
#define NO_TID 0xffffffff
#define FOREVER 0xffffffffffffffffULL

/* Where a task's time goes. The order is the index into `acc.ns`. */
enum state {
	NEVER, /* no event yet: the first event shows what the task was doing since the start */
	RUN,
	WAIT, /* runnable, not running: steal */
	THROTTLED, /* runnable, a budget of its own is used up; how much of a wait that took is known when the wait ends */
	UNKNOWN, /* the kernel changed its state without reporting it */
	BLOCK_FUTEX,
	BLOCK_IO,
	BLOCK_SLEEP,
	BLOCK_POLL,
	BLOCK_PIPE,
	BLOCK_CHILD,
	BLOCK_OTHER,
	STATES, /* whose times are adjacent; those of the rare ones that follow are separate */
	STOPPED = STATES, /* by a signal or a tracer */
	FROZEN, /* by a freezer of its cgroup, or with the system */
	ALL_STATES,
};

#define HELD (ALL_STATES - STATES)
#define SYSCALLS 512 /* numbers that are told apart */

/* Groups with fixed numbers; others are found by cgroups and process group. */
enum group {
	GROUP_UNKNOWN, /* whoever ran was not seen */
	GROUP_IDLE,
	GROUP_KERNEL,
	GROUP_SOFTIRQ,
	GROUP_WORKQUEUE,
	GROUP_WATCHER, /* the process that watches, if it is to be separate from its co-runners */
	GROUP_FIRST,
};

enum task_flags {
	STICKY = 1, /* group was assigned by user space; children inherit it */
	KTHREAD = 2,
	BUDGETS_TOLD = 4, /* the run log has the quotas that it is under */
};

struct culprit {
	u64 ns;
	u32 group;
	u32 pad;
};

/*
 * What is accumulated over a task's life. The part that most switches touch comes first: two cache lines.
 * Counts wrap, which takes a busy task half a day; user space takes differences of two readings only.
 */
struct acc {
	u64 ns[STATES];
	u32 blocked;
	u32 preemptions;
	u32 wakeups;
	u32 yielded; /* sched_yield: it stayed runnable */
	struct culprit culprits[CULPRITS];
	u32 migrations[4]; /* same core, same LLC, same socket, other socket */
	u64 unattributed_ns;
	u64 others_ns;
	u64 held_ns[HELD]; /* STOPPED, FROZEN */
};

/* How many waits for a CPU, and how many stretches on one, had each length. They are adjacent: one cache line
 * of short ones. */
struct lengths {
	u32 waits;
	u32 stretches;
};

/* Every event touches the first cache line. */
struct task_rec {
	u32 seq; /* odd while a handler writes */
	u32 tid;
	u32 group;
	u32 flags;
	u32 state;
	u32 cpu; /* last run on or waiting for */
	u32 ran; /* whether it ever ran */
	u32 guess; /* state read from the task at attach; counts only while state is NEVER */
	u64 since_ns; /* accounted up to here */
	u64 began_ns; /* when `state` was entered */
	u64 edge_ns; /* window edge that `snap` was taken at */
	u64 throttled_at; /* the values of its budgets' clocks when the wait began */
	struct acc cur;
	struct lengths lengths[BUCKETS];
	struct acc snap; /* `cur` as it was at `edge_ns` */
	u64 born_ns; /* its account begins here: its birth, or the start */
	u32 serial; /* distinguishes two users of one slot */
	u32 tgid;
	char comm[16];
	u64 cgroups; /* its location in all hierarchies at once when its group was found: the kernel's css_set */
	u32 pgid; /* its process group then */
	u32 heirs; /* the group of the processes that it starts; 0: no group of its own choice */
	/* For a wait that was open when user space asked: how much of it a quota had taken up to this edge. */
	u64 open_edge_ns;
	u64 open_throttled_ns;
} __attribute__((aligned(64)));

/* From `start_ns` until the next occupancy starts, `group` held the CPU. */
struct occupancy {
	u64 start_ns;
	u32 group;
	u32 pad;
};

struct cpu_acc {
	u64 busy_ns;
	u64 idle_ns;
	u64 unknown_ns;
};

/* Two cache lines, and the log: a switch within one group touches the first and the sums. */
struct cpu_rec {
	u32 seq;
	u32 tid; /* the running task, as far as seen; NO_TID before the first switch */
	u32 slot; /* its record; 0 if it has none */
	u32 group; /* its group: that of the newest occupancy */
	u64 occupied_ns; /* start of the newest occupancy */
	u64 since_ns;
	u64 edge_ns;
	u64 lead_ns; /* by how much the monotonic clock was ahead of the run queue's */
	u64 lead_at_ns; /* when that was measured */
	u64 switches;
	struct cpu_acc cur;
	struct cpu_acc snap;
	u64 head; /* occupancies ever written; the newest is open */
	s32 hardirqs; /* it is in, as far as they are counted (probe_record.h) */
	s16 softirqs;
	s16 timers;
	struct occupancy log[OCCUPANTS];
} __attribute__((aligned(64)));

/* The location of a task in all cgroup trees at once. */
struct whereabouts {
	u64 cgroup; /* in the v2 tree */
	u64 v1; /* in the hierarchies of v1, mixed into one number; 0 if there are none */
};

/*
 * A process group in its cgroups: the finest possible tenant. User space merges them. If user space has said
 * that the cgroups decide, process groups are not distinguished: `pgid` is 0.
 */
struct group_key {
	struct whereabouts at;
	u32 pgid;
	u32 pad;
};

/* A group, and the sums of its tasks whose last record found no room in the ring. */
struct group_rec {
	struct group_key key;
	u32 tid; /* first member seen */
	u32 unlisted; /* tasks folded into `dead` */
	u32 tgid; /* its process */
	u32 hierarchies; /* of v1 that are written down below */
	char comm[16]; /* of that process; later of the one that leads the process group, when it executes a program */
	u64 v1[HIERARCHIES]; /* its cgroups of v1 except roots: the hierarchy's number in the highest byte, and the cgroup's */
	u64 dead_ns[ALL_STATES];
	u64 dead_unattributed_ns;
	u64 dead_events[8]; /* blocked, preemptions, wakeups, migrations, yielded */
	u64 dead_waits[BUCKETS];
	u64 dead_stretches[BUCKETS];
};

/* Steal of `victim`'s tasks by `culprit` that did not fit into their own records. */
struct pair {
	u32 victim;
	u32 culprit;
};

struct pair_steal {
	struct pair pair;
	u64 ns;
};

/* The location of a CPU, for the distance of migrations. */
struct place {
	u32 core;
	u32 llc;
	u32 socket;
	u32 pad;
};

/* Written by user space, read by every handler. */
struct control {
	u64 start_ns; /* handlers do nothing before this time: nothing is known about it */
	u64 edge_ns; /* the newest window edge */
	u64 stop_ns; /* handlers do nothing from here on */
	u64 record_group; /* the run log covers its tasks */
	u64 least_wait_ns; /* shorter waits are not reported one by one */
	u64 stocked; /* whether the tasks that existed at the start have been recorded */
};

/* Written by the probe. */
struct losses {
	u64 untracked_tasks; /* no free record; each counted once */
	u64 ended_unlisted; /* no room in the ring of ended tasks */
	u64 trace_events; /* no room in the trace ring */
	u64 groups; /* no room in the group table: tasks went to GROUP_UNKNOWN */
	u64 surprises; /* switches whose predecessor was not the last one seen */
	u64 record_events; /* no room in the ring of the run log */
	u64 pairs; /* charges beyond the culprits in a record, for which there was no room: they are unattributed */
};

/* An ended task, sent whole through the ring. */
struct ended {
	u64 end_ns;
	struct task_rec rec;
};

enum trace_kind {
	TRACE_SWITCH,
	TRACE_WAKEUP,
	/* Only where single waits are wanted. */
	TRACE_WAITED, /* `next` has waited for so long */
	TRACE_MOVED, /* `next`, which waits, goes from the queue of CPU `prev` to this one's */
	TRACE_THROTTLED, /* of a wait of `next`, this long from `t_ns` on was its budgets' fault */
};

struct trace_event {
	u64 t_ns;
	u32 cpu;
	u8 kind;
	u8 left; /* how: 0 runnable, 1 blocked, 2 uninterruptible, 3 ended, 4 stopped or frozen; of a wake-up, an enum waker */
	u16 high; /* of a length in nanoseconds, bits 32 to 47; `prev` is the rest */
	u32 prev; /* the task that left, or woke another; 0: the idle task, or an interrupt */
	u32 next;
};

/* An action of a task of the subject, for the run log. */
enum record_kind {
	RECORD_RUNS = 1, /* came onto a CPU; a, b: the first 128 CPUs that it may use */
	RECORD_LEAVES, /* how: 0 preempted, 1 blocked, 2 uninterruptible, 3 ended, 4 yielded; a: its state; b: the futex, or the signal that ended it */
	RECORD_WOKEN, /* how: by what; a: by whom */
	RECORD_BORN, /* how: 1 a thread, 0 a process; a: by whom */
	RECORD_TIMER, /* is about to sleep until a; how: 1 given as a length, 0 as a time */
	RECORD_BUDGET, /* a group may run for a in every b, above bit 32: filled up when in it, + 1; how: 1 another follows */
	RECORD_CONFINES, /* requests another set of CPUs, for which some task has to leave one */
};

enum waker { WAKER_TASK, WAKER_HARDIRQ, WAKER_SOFTIRQ, WAKER_IDLE, WAKER_TIMER };

struct record_event {
	u64 t_ns;
	u64 who; /* from the lowest bit: tid (32), kind (8), how (8), CPU (16) */
	u64 a;
	u64 b;
};

#endif
