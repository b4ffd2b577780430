/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The data that the scheduler shares with user space: cells, CPUs, knobs, and the control block.
 * `src/scheduler.rs` reads the skeleton that is generated from it.
 */
#ifndef CORUN_SCHED_H
#define CORUN_SCHED_H

#define CELLS 1024 /* a power of two of at least 64 */
#define CELL_WORDS (CELLS / 64)
#define LLCS 64
#define CPUS 1024 /* a power of two, as CELLS */
#define DEPTH 8 /* levels of cgroups whose weights count; deeper ones share their ancestor's cell */
#define STRETCHES 16 /* buckets of lengths of stretches: under 2^(i+6) us, the last is overflow */

/*
 * CPU time is shared between cells: a cgroup's own tasks, or a tenant that user space has set apart. Its
 * tasks wait in its own queues, ordered by their virtual times; cells are ordered by theirs.
 */
struct cell {
	u64 vtime; /* of the cell; advances as its tasks run, slower the larger its share */
	u64 task_vtime; /* the virtual time its tasks have reached among themselves */
	u64 parked_since_ns; /* 0: not parked */
	u64 cgroup; /* id of its cgroup; 0 for one that user space made */
	u32 used;
	u32 parent;
	u32 depth;
	u32 weight; /* as cpu.weight */
	u32 counted; /* of its weight, what its parent's `children` holds: 0 while nothing in it is runnable */
	u32 children; /* sum of the weights of its active child cells */
	u32 own; /* sum of the weights of its own runnable tasks */
	u32 queued; /* tasks that wait in its queues; may be too high for a moment, never too low */
	u32 made; /* its queues exist */
	u32 members; /* tasks that belong to it, runnable or not */
	/* statistics */
	u64 ran_ns;
	u64 stretches; /* times a task of it got a CPU */
	u64 preempted; /* of these, how many ended with the task still runnable */
	u64 expired; /* parks that ended by themselves */
	u64 lengths[STRETCHES];
};

struct cpu {
	u32 cell; /* of the task that runs; NOBODY when none of ours does */
	u32 tid;
	u64 started_ns;
	u64 vtime; /* of that cell when the task started */
	u64 share; /* of that cell then */
	u64 task_vtime; /* of the task when it started */
	u64 task_share;
	u64 slice_end_ns; /* 0: the tick ends it */
	u64 preempt_due_ns; /* 0: no delayed preemption is due */
	/* statistics */
	u64 switches;
	u64 direct; /* tasks that woke up onto an idle CPU */
	u64 picked; /* tasks taken from a queue */
	u64 kept; /* slices renewed because nobody deserved the CPU more */
	u64 preempts_now; /* wake-ups that took the CPU at once */
	u64 preempts_late; /* wake-ups that took it after their delay */
	u64 slice_ends; /* slices ended by our timer */
	u64 kernel; /* wake-ups of kernel threads, served at once */
} __attribute__((aligned(64)));

#define NOBODY 0xffffffff

enum knob_flags {
	OWN_CELL = 1, /* `cell` holds, whatever the task's cgroup */
	PROTECTED = 2, /* belongs to the root, and so is never parked */
};

/* The settings from user space for a task; a task without an entry keeps its inherited ones. */
struct knob {
	u64 slice_min_ns; /* 0: the default slice */
	u64 slice_max_ns;
	u64 delay_ns; /* of its preemption at wake-up */
	u32 cell;
	u32 flags;
};

/* Written by user space, read by the scheduler. */
struct control {
	u64 generation; /* grows when knobs have changed */
	u64 lease_until_ns; /* nobody stays parked after */
};

/* Why the scheduler left the kernel. */
struct scheduler_exit {
	u64 kind; /* 0: it is still there */
	char reason[128];
	char message[1024];
};

struct losses {
	u64 cells; /* cgroups that share their parent's cell: no free one, or too deep */
	u64 tasks; /* events of tasks without a record */
};

/* Arguments of the programs that user space calls. `cell` is the result of cell_new; -1 if there is none. */
struct cell_args {
	u32 cell;
	u32 parent;
	u32 weight;
	u32 parked;
};

#endif
