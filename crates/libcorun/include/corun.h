/* libcorun: how many CPUs this program can get right now, given its neighbors, and which of its threads wait for a CPU.
 *
 *     corun *c;
 *     if (corun_open(CORUN_ABI, 1, 0, &c) < 0) ...
 *     for (;;) {
 *         corun_refresh(c);                     at a safe point: reads files when 50 ms have passed
 *         int threads = corun_threads(c);       anywhere, as often as you like
 *         ...
 *     }
 *
 * It starts no thread and needs no privilege and no daemon. After corun_open and corun_workers it allocates nothing. Any number of
 * threads may call any function at the same time, except corun_close. A function that returns int returns 0 or more, or one of the
 * codes below; corun_text returns the sentence of a code.
 *
 * A forked child has to close the handle of its parent and open its own. Every other call returns CORUN_FORKED there.
 *
 * The environment variable CORUN_ADAPT decides whether the program adapts: on (or not set), off, or observe. With observe corun_threads
 * keeps returning the most, and every change that it would have made is a line on standard error.
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

/* The figure is not known. This is not an error. */
#define CORUN_NOT_KNOWN (-1)
/* A pointer is NULL. */
#define CORUN_NULL (-2)
/* The program was compiled for another version of this interface. */
#define CORUN_OTHER_ABI (-3)
/* CORUN_ADAPT, or the mode passed, is none of off, observe and on. */
#define CORUN_BAD_MODE (-4)
/* /proc is not mounted. */
#define CORUN_NO_PROC (-5)
/* The system has no memory for it. */
#define CORUN_NO_MEMORY (-6)
/* The parent process opened the handle, and this process was forked since. */
#define CORUN_FORKED (-7)
/* The number of workers is 0. */
#define CORUN_NO_WORKERS (-8)
/* More than 4,096 workers. */
#define CORUN_TOO_MANY_WORKERS (-9)
/* corun_workers was not called yet. */
#define CORUN_NO_CREW (-10)
/* corun_workers was called before. */
#define CORUN_HAS_CREW (-11)
/* There is no worker with that number. */
#define CORUN_NO_SUCH_WORKER (-12)
/* No thread joined as that worker. */
#define CORUN_NOT_JOINED (-13)
/* Another living thread is that worker. */
#define CORUN_TAKEN (-14)
/* No other worker could take over. */
#define CORUN_NOBODY (-15)
/* The process published no page, or has died. */
#define CORUN_NO_PAGE (-16)
/* Its page has another version. */
#define CORUN_PAGE_VERSION (-17)
/* Its file that looks like a page is not one. */
#define CORUN_PAGE_FOREIGN (-18)
/* There is no such process, or its open files may not be read. */
#define CORUN_PAGE_DENIED (-19)

/* Modes. */
#define CORUN_OFF 0
#define CORUN_OBSERVE 1
#define CORUN_ON 2

typedef struct corun corun;

/* Called with the pointer that was passed to corun_on_change, and the new number of threads. */
typedef void (*corun_callback)(void *given, int threads);

/* What a program has published: its least and most threads, and its units of work done. */
typedef struct corun_published {
    uint32_t least;
    uint32_t most;
    uint64_t progress;
} corun_published;

/* The version of the library. */
uint32_t corun_abi(void);

/* The sentence of a code. The pointer stays valid. */
const char *corun_text(int code);

/* One call for one number: how many threads this process should run now, at least 1. The first call opens a handle; later calls renew an
 * old answer. In the first 50 ms it returns the number of CPUs that the process may use. */
int corun_cpus(void);

/* Opens a handle for a program that runs `least` to `most` threads. With 0 for most, it is the number of CPUs that the process may use. */
int corun_open(uint32_t abi, uint32_t least, uint32_t most, corun **opened);

/* Closes a handle that no thread uses any more. NULL is allowed. */
void corun_close(corun *c);

/* Renews the answer if it is older than 50 ms, which takes some tens of microseconds. Otherwise it only reads the clock. Returns 1 if it
 * renewed the answer, else 0. Calls the callback if the number of threads changed. */
int corun_refresh(corun *c);

/* CPUs that the process gets while everybody competes, in milli-CPUs. */
int corun_guaranteed(const corun *c);

/* CPUs that the process can get while neighbors go on as now, in milli-CPUs. */
int corun_available(const corun *c);

/* How many threads to run, at least 1. */
int corun_threads(const corun *c);

/* Writes the answer and its reason as a sentence: at most `size` bytes, including the final zero. Returns the length of the whole sentence,
 * like snprintf. */
int corun_reason(const corun *c, char *text, size_t size);

/* Sets whether the program adapts. Replaces the value of CORUN_ADAPT. */
int corun_set_mode(corun *c, int mode);

/* Sets the function that corun_refresh and corun_park call, on the thread that calls them. Replaces the one before; NULL for none. */
int corun_on_change(corun *c, corun_callback callback, void *given);

/* Makes the workers, numbered from 0. Call it once. A worker without a beat for longer than `patience_ns` counts as off its CPU; 0 means a
 * millisecond. */
int corun_workers(corun *c, uint32_t workers, uint64_t patience_ns);

/* Makes the calling thread this worker, until it ends or leaves. */
int corun_join(corun *c, uint32_t worker);
int corun_leave(corun *c, uint32_t worker);

/* Shows that this worker runs. Takes a few nanoseconds. Call it wherever the worker could stop. */
int corun_beat(const corun *c, uint32_t worker);

/* Time that a worker waited for a CPU over the time it ran or waited, in thousandths, over the last 50 ms or more. */
int corun_stolen(const corun *c, uint32_t worker);

/* 1 if a worker was on a CPU a moment ago; 0 if it is off its CPU, sleeps or is parked. Ask twice within the patience. */
int corun_on_cpu(const corun *c, uint32_t worker);

/* The worker that should take over this one's work: under the same last-level cache if possible, and with the smallest stolen share. */
int corun_heir(const corun *c, uint32_t worker);

/* 1 if this worker is to go on. Otherwise it should give its work away and call corun_park. */
int corun_is_wanted(const corun *c, uint32_t worker);

/* Sleeps until the calling worker is wanted, or for `most_ns`. Returns 1 if it is wanted, else 0. */
int corun_park(corun *c, uint32_t worker, uint64_t most_ns);

/* Makes a worker go on, at any number of threads. */
int corun_wake(corun *c, uint32_t worker);

/* Shares least, most and progress with a controller. corun_threads follows its advice while the controller lives. */
int corun_publish(corun *c);

/* Adds finished units of work. The program chooses the unit. */
int corun_progress(const corun *c, uint64_t units);

/* Reads what another process has published. */
int corun_peer(uint32_t process, corun_published *published);

#ifdef __cplusplus
}
#endif

#endif
