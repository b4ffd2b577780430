/* Programs that wait by spinning and know for how long: two threads, each of which prints its name, CPU time
 * and the CPU time that it spent waiting, in nanoseconds. All have the same work loop; only the way of
 * waiting differs.
 *
 *   waits KIND ROUNDS     KIND: spinlock, futexlock, flag, each, yield, clock, omp
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int rounds;
static volatile double sinks[2][16];

static int64_t read_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}
static int64_t cpu_ns(void) { return read_ns(CLOCK_THREAD_CPUTIME_ID); }

static void work(int me, long loops) {
    double x = 1;
    for (long i = 0; i < loops; i++) x = x * 1.0000001 + 1e-9;
    sinks[me][0] = x;
}

static void report(const char *name, int64_t total, int64_t spin) {
    printf("%d %s %ld %ld\n", (int)syscall(SYS_gettid), name, (long)total, (long)spin);
}

/* A lock: each thread holds it for a while and works outside for half as long. */
static pthread_spinlock_t spinlock;
static _Atomic int word;
static void futex(int op, int value) { syscall(SYS_futex, &word, op, value, 0, 0, 0); }
/* Spins a while on a futex word, then sleeps: the lock of many C libraries. */
static int64_t futex_lock(void) {
    int64_t begin = cpu_ns();
    int64_t slept = 0;
    for (;;) {
        for (int i = 0; i < 20000; i++) {
            int free_ = 0;
            if (atomic_load_explicit(&word, memory_order_relaxed) == 0 &&
                atomic_compare_exchange_strong(&word, &free_, 1))
                return cpu_ns() - begin - slept;
            __builtin_ia32_pause();
        }
        int64_t before = cpu_ns();
        if (atomic_exchange(&word, 2) == 0) return cpu_ns() - begin - slept;
        futex(FUTEX_WAIT_PRIVATE, 2);
        slept += cpu_ns() - before;
    }
}
static void futex_unlock(void) {
    if (atomic_exchange(&word, 0) == 2) futex(FUTEX_WAKE_PRIVATE, 1);
}
static void lock_rounds(int me, int by_futex) {
    int64_t begin = cpu_ns(), spin = 0;
    for (int r = 0; r < rounds; r++) {
        int64_t before = cpu_ns();
        if (by_futex) spin += futex_lock();
        else {
            pthread_spin_lock(&spinlock);
            spin += cpu_ns() - before;
        }
        work(me, 200000);
        if (by_futex) futex_unlock(); else pthread_spin_unlock(&spinlock);
        work(me, 100000);
    }
    report("lock", cpu_ns() - begin, spin);
}

/* A pair in step: the first works three times as long as the second, which waits for it. */
static _Atomic int step;
static _Atomic int done;
/* The successive objects that "each" waits for: a wait inside a loop that makes progress. */
static struct { _Alignas(64) _Atomic int step; } steps[8];
static void wait_for(const char *how, int value) {
    int64_t end = read_ns(CLOCK_MONOTONIC) + 100000000000L;
    if (!strcmp(how, "flag")) while (atomic_load(&step) < value) ;
    else if (!strcmp(how, "each")) for (int i = 0; i < 8; i++) while (atomic_load(&steps[i].step) < value) ;
    else if (!strcmp(how, "yield")) while (atomic_load(&step) < value) sched_yield();
    else while (atomic_load(&step) < value && read_ns(CLOCK_MONOTONIC) < end) __builtin_ia32_pause();
}
static void step_rounds(int me, const char *how) {
    int64_t begin = cpu_ns(), spin = 0;
    for (int r = 1; r <= rounds; r++) {
        work(me, me ? 100000 : 300000);
        if (me) {
            int64_t before = cpu_ns();
            wait_for(how, r);
            spin += cpu_ns() - before;
            atomic_store(&done, r);
        } else {
            atomic_store(&step, r);
            for (int i = 0; i < 8; i++) atomic_store(&steps[i].step, r);
        }
    }
    report(me ? "waits" : "works", cpu_ns() - begin, spin);
}

/* The same through OpenMP's barrier. */
static void omp_rounds(void) {
    #pragma omp parallel num_threads(2)
    {
        int me = 0;
#ifdef _OPENMP
        extern int omp_get_thread_num(void);
        me = omp_get_thread_num();
#endif
        int64_t begin = cpu_ns(), spin = 0;
        for (int r = 0; r < rounds; r++) {
            work(me, me ? 100000 : 300000);
            int64_t before = cpu_ns();
            #pragma omp barrier
            spin += cpu_ns() - before;
        }
        report(me ? "waits" : "works", cpu_ns() - begin, spin);
    }
}

static const char *kind;
static void *start(void *which) {
    int me = (int)(long)which;
    if (!strcmp(kind, "spinlock")) lock_rounds(me, 0);
    else if (!strcmp(kind, "futexlock")) lock_rounds(me, 1);
    else step_rounds(me, kind);
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    kind = argv[1];
    rounds = atoi(argv[2]);
    if (!strcmp(kind, "omp")) {
        omp_rounds();
        return 0;
    }
    pthread_spin_init(&spinlock, 0);
    pthread_t other;
    pthread_create(&other, 0, start, (void *)1);
    start(0);
    pthread_join(other, 0);
    return 0;
}
