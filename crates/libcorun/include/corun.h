/* libcorun: how many CPUs can this program get right now, counting its neighbours, and which of its threads is stolen from.
 *
 *     corun *c;
 *     if (corun_open(CORUN_ABI, 1, 0, &c) < 0) ...
 *     for (;;) {
 *         corun_refresh(c);                     at a safe point: reads files when 50 ms have passed
 *         int threads = corun_threads(c);       anywhere, as often as you like
 *         ...
 *     }
 *
 * It starts no thread and needs no privilege and no daemon. After corun_open and corun_workers nothing is allocated. Any number of
 * threads may call it at the same time, except corun_close. A function that returns int returns a number of 0 or more, or one of the
 * codes below; corun_text says a code in words.
 *
 * A forked child has to close what its parent opened and to open it anew: all else returns CORUN_FORKED there.
 *
 * The environment variable CORUN_ADAPT decides whether the program adapts: on (or not set), off, or observe. With observe corun_threads
 * stays the most, and every change that it would have made is a line on standard error.
 */
#ifndef CORUN_H
#define CORUN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. Names are added to it, and never changed. */
#define CORUN_ABI 1

/* It cannot be known here, which is no error. */
#define CORUN_NOT_KNOWN (-1)
/* A pointer is NULL. */
#define CORUN_NULL (-2)
/* The program was compiled for another version of this interface. */
#define CORUN_OTHER_ABI (-3)
/* CORUN_ADAPT, or the mode that was given, is none of off, observe and on. */
#define CORUN_BAD_MODE (-4)
/* /proc is not mounted. */
#define CORUN_NO_PROC (-5)
/* The system gives no memory. */
#define CORUN_NO_MEMORY (-6)
/* It was opened by the process that this one was forked from. */
#define CORUN_FORKED (-7)
/* Zero workers. */
#define CORUN_NO_WORKERS (-8)
/* More than 4,096 workers. */
#define CORUN_TOO_MANY_WORKERS (-9)
/* corun_workers was not called yet. */
#define CORUN_NO_CREW (-10)
/* corun_workers was called before. */
#define CORUN_HAS_CREW (-11)
/* There is no worker of that number. */
#define CORUN_NO_SUCH_WORKER (-12)
/* No thread joined as that worker. */
#define CORUN_NOT_JOINED (-13)
/* Another thread, which lives, is that worker. */
#define CORUN_TAKEN (-14)
/* No other worker could take over. */
#define CORUN_NOBODY (-15)
/* The process published no page, or has died. */
#define CORUN_NO_PAGE (-16)
/* Its page is of another version. */
#define CORUN_PAGE_VERSION (-17)
/* What it calls a page is none. */
#define CORUN_PAGE_FOREIGN (-18)
/* There is no such process, or its open files may not be read. */
#define CORUN_PAGE_DENIED (-19)

/* Modes. */
#define CORUN_OFF 0
#define CORUN_OBSERVE 1
#define CORUN_ON 2

typedef struct corun corun;

/* Called with what was given to corun_on_change and the new number of threads. */
typedef void (*corun_callback)(void *given, int threads);

/* What a program published. */
typedef struct corun_published {
    uint32_t least;
    uint32_t most;
    uint64_t progress;
} corun_published;

/* The version of the library. */
uint32_t corun_abi(void);

/* A code in words: a sentence that stays valid. */
const char *corun_text(int code);

/* One number, one call: how many threads this process had better run now, at least 1. It opens what it needs at its first call, and refreshes
 * what is old. Until 50 ms have passed it is the number of CPUs that the process may use. */
int corun_cpus(void);

/* For a program that runs at least `least` and at most `most` threads; 0 for most is the CPUs that the process may use. */
int corun_open(uint32_t abi, uint32_t least, uint32_t most, corun **opened);

/* No thread may use it any more. NULL is fine. */
void corun_close(corun *c);

/* Renews the answer when it is older than 50 ms, some tens of microseconds. Otherwise it takes one look at the clock. Returns 1 where it
 * renewed it, else 0. Calls the callback where the number of threads changed. */
int corun_refresh(corun *c);

/* Milli-CPUs that the process has when everybody wants everything. */
int corun_guaranteed(const corun *c);

/* Milli-CPUs that the process can have while neighbours go on as they do. */
int corun_available(const corun *c);

/* How many threads to run, at least 1. */
int corun_threads(const corun *c);

/* Why, as a sentence. Writes at most `size` bytes with the zero at the end, and returns the length of the whole sentence, like snprintf. */
int corun_reason(const corun *c, char *text, size_t size);

/* Whether the program adapts, instead of what CORUN_ADAPT says. */
int corun_set_mode(corun *c, int mode);

/* From within corun_refresh and corun_park, by the thread that calls them. It replaces the callback before; NULL for none. */
int corun_on_change(corun *c, corun_callback callback, void *given);

/* Workers, numbered from 0. Once. A worker that shows no beat for longer than `patience_ns` is off its CPU; 0 for a millisecond. */
int corun_workers(corun *c, uint32_t workers, uint64_t patience_ns);

/* The calling thread is this worker from now on, until it ends or leaves. */
int corun_join(corun *c, uint32_t worker);
int corun_leave(corun *c, uint32_t worker);

/* Shows that this worker runs: a few nanoseconds. Call it wherever the worker could stop. */
int corun_beat(const corun *c, uint32_t worker);

/* The share of its time that a worker waited for a CPU, in thousandths, over the last 50 ms or more. */
int corun_stolen(const corun *c, uint32_t worker);

/* 1 where a worker was on a CPU a moment ago, 0 where it is off its CPU, sleeps or is parked. Ask twice within the patience. */
int corun_on_cpu(const corun *c, uint32_t worker);

/* The worker that had better take over this one's work: under the same last-level cache first, then the one that is stolen from least. */
int corun_heir(const corun *c, uint32_t worker);

/* 1 where this worker is to go on. Where not, it gives its work away and parks. */
int corun_is_wanted(const corun *c, uint32_t worker);

/* Sleeps until the calling worker is wanted, at most so long. Returns 1 where it is wanted, else 0. */
int corun_park(corun *c, uint32_t worker, uint64_t most_ns);

/* Makes a worker go on, however many threads there should be. */
int corun_wake(corun *c, uint32_t worker);

/* Shares least, most and progress with a controller, whose advice corun_threads follows while it lives. */
int corun_publish(corun *c);

/* So many more units of work are done. */
int corun_progress(const corun *c, uint64_t units);

/* What another process published. */
int corun_peer(uint32_t process, corun_published *published);

#ifdef __cplusplus
}
#endif

#endif
