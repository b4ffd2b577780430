/* The first process of a guest of the study of virtual machines, and the only one: it works for ever, and tells how much.
 *
 * Its environment says which: the kernel puts `program=NAME` and `threads=N` of its command line there, which it does not know.
 *
 *   hash   integers in registers
 *   walk   a random walk through 8 MiB: the emulator's tables and the caches
 *   pass   two threads hand a token to each other through a futex: each step is a block and a wake-up in the guest
 *   nap    NAP_STEPS steps, then asleep for 2 ms
 *   lock   threads take a ticket lock, hold it for HELD rounds and work twice as long without it; who waits spins
 *
 * Every 50 ms it writes a line on the console, `= WORK WAITS LONGEST_NS`: the work done so far (in steps of the program, which differ
 * from one to the next), how often the lock was waited for a millisecond and more, and the longest such wait of these 50 ms. A wait of a
 * millisecond is many times what a holder needs: it did not run meanwhile.
 *
 * Built static, by `cc -O2 -static -pthread`; there is nothing else in the guest's file system. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LONG_WAIT_NS 1000000u
#define TELL_NS 50000000u
#define NAP_STEPS 400
#define HELD 5000

static volatile uint64_t work, waits, longest, sink;
static uint32_t *table;
static const uint32_t entries = 2u << 20;

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static uint64_t hash(uint64_t x, int rounds) {
    for (int i = 0; i < rounds; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    return x;
}

static void *hashes(void *of) {
    uint64_t x = 88172645463325252ull + (uintptr_t)of;
    for (;;) {
        x = hash(x, 1000);
        sink = x;
        __atomic_fetch_add(&work, 1, __ATOMIC_RELAXED);
    }
}

static void *walks(void *of) {
    uint32_t at = (uint32_t)(uintptr_t)of;
    for (;;) {
        for (int i = 0; i < 1000; i++)
            at = table[at];
        sink = at;
        __atomic_fetch_add(&work, 1, __ATOMIC_RELAXED);
    }
}

static void *naps(void *of) {
    uint64_t x = 88172645463325252ull + (uintptr_t)of;
    struct timespec nap = {0, 2000000};
    for (;;) {
        for (int i = 0; i < NAP_STEPS; i++) {
            x = hash(x, 1000);
            __atomic_fetch_add(&work, 1, __ATOMIC_RELAXED);
        }
        sink = x;
        nanosleep(&nap, 0);
    }
}

static uint32_t turn;

static void *passes(void *of) {
    uint32_t own = (uint32_t)(uintptr_t)of;
    uint64_t x = 1 + own;
    for (;;) {
        uint32_t is;
        while ((is = __atomic_load_n(&turn, __ATOMIC_ACQUIRE)) != own)
            syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, is, 0, 0, 0);
        x = hash(x, 1000);
        sink = x;
        __atomic_fetch_add(&work, 1, __ATOMIC_RELAXED);
        __atomic_store_n(&turn, 1 - own, __ATOMIC_RELEASE);
        syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
    }
}

static uint32_t next_ticket, served;

static void *locks(void *of) {
    uint64_t x = 1 + (uintptr_t)of;
    for (;;) {
        uint64_t began = now();
        uint32_t ticket = __atomic_fetch_add(&next_ticket, 1, __ATOMIC_RELAXED);
        while (__atomic_load_n(&served, __ATOMIC_ACQUIRE) != ticket)
            __builtin_ia32_pause();
        uint64_t waited = now() - began;
        if (waited >= LONG_WAIT_NS) {
            waits++;
            if (waited > longest)
                longest = waited;
        }
        x = hash(x, HELD);
        work++;
        __atomic_store_n(&served, ticket + 1, __ATOMIC_RELEASE);
        x = hash(x, 2 * HELD);
        sink = x;
    }
}

/* One cycle through all of the table, in a random order (Sattolo). */
static void shuffle(void) {
    uint64_t x = 88172645463325252ull;
    table = malloc(entries * sizeof *table);
    for (uint32_t i = 0; i < entries; i++)
        table[i] = i;
    for (uint32_t i = entries - 1; i > 0; i--) {
        x = hash(x, 1);
        uint32_t j = x % i, other = table[i];
        table[i] = table[j];
        table[j] = other;
    }
}

int main(void) {
    const char *name = getenv("program"), *count = getenv("threads");
    int threads = count ? atoi(count) : 1;
    void *(*run)(void *) = 0;
    if (!name)
        return 1;
    if (!strcmp(name, "hash"))
        run = hashes;
    else if (!strcmp(name, "walk"))
        run = walks;
    else if (!strcmp(name, "nap"))
        run = naps;
    else if (!strcmp(name, "pass"))
        run = passes, threads = 2;
    else if (!strcmp(name, "lock"))
        run = locks;
    else
        return 1;
    if (run == walks)
        shuffle();
    for (int i = 0; i < threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, 0, run, (void *)(uintptr_t)i))
            return 1;
    }
    for (;;) {
        struct timespec nap = {0, TELL_NS};
        nanosleep(&nap, 0);
        uint64_t most = __atomic_exchange_n(&longest, 0, __ATOMIC_RELAXED);
        printf("= %llu %llu %llu\n", (unsigned long long)work, (unsigned long long)waits, (unsigned long long)most);
        fflush(stdout);
    }
}
