/* Programs that never wait: each kernel runs in a thread with its name, for the CPU time given in
 * milliseconds. A spin detector must leave them alone at several levels of optimization: tight loops, loops
 * without stores, loops that read memory that others write, locks that are always free. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define N 4096
static double budget_s;
static volatile uint64_t sink;
static volatile double real_sink;
static int bound = N;

static double cpu_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

/* Repeats a kernel for the thread's budget, and reads the clock rarely. */
#define REPEAT(body)                       \
    do {                                   \
        double end = cpu_s() + budget_s;   \
        while (cpu_s() < end)              \
            for (int r = 0; r < 64; r++) { \
                body;                      \
            }                              \
    } while (0)

static void daxpy(void) {
    static double x[N], y[N];
    REPEAT(for (int i = 0; i < N; i++) y[i] += 1.5 * x[i]);
    real_sink = y[7];
}
static void dot(void) {
    static double x[N], y[N];
    double s = 0;
    REPEAT(for (int i = 0; i < N; i++) s += x[i] * y[i]);
    real_sink = s;
}
static void lcg(void) {
    uint64_t x = 1;
    REPEAT(for (int i = 0; i < bound; i++) x = x * 6364136223846793005u + 1442695040888963407u);
    sink = x;
}
static void xorshift(void) {
    uint64_t x = 88172645463325252u;
    REPEAT(for (int i = 0; i < bound; i++) { x ^= x << 13; x ^= x >> 7; x ^= x << 17; });
    sink = x;
}
static void fill(void) {
    static char a[N * 16];
    REPEAT(memset(a, r, sizeof a); sink += a[5]);
}
static void own_fill(void) {
    static int a[N];
    REPEAT(for (int i = 0; i < N; i++) a[i] = r);
    sink = a[3];
}
static void scan(void) {
    static char a[N * 4];
    memset(a, 'x', sizeof a - 1);
    REPEAT(sink += strlen(a); sink += memchr(a, 'y', sizeof a) != 0);
}
static void own_scan(void) {
    static char a[N];
    memset(a, 'x', sizeof a - 1);
    REPEAT(const char *p = a; while (*p != 'y' && *p) p++; sink += p - a);
}
static void bubble(void) {
    static int a[128];
    REPEAT(
        for (int i = 0; i < 128; i++) a[i] = (i * 7919 + r) % 127;
        for (int i = 0; i < 128; i++) for (int j = 0; j + 1 < 128 - i; j++) if (a[j] > a[j + 1]) {
            int t = a[j];
            a[j] = a[j + 1];
            a[j + 1] = t;
        });
    sink = a[9];
}
struct node { struct node *next; uint64_t key; };
static void chase(void) {
    static struct node n[N];
    for (int i = 0; i < N; i++) n[i].next = &n[(i * 1021 + 511) % N];
    struct node *p = n;
    REPEAT(for (int i = 0; i < bound; i++) p = p->next);
    sink = p->key;
}
static void hash_walk(void) {
    static struct node n[N], *heads[16];
    for (int i = 0; i < N; i++) { n[i].key = i; n[i].next = heads[i % 16]; heads[i % 16] = &n[i]; }
    REPEAT(struct node *p = heads[r % 16]; while (p && p->key != (uint64_t)r) p = p->next; sink += p != 0);
}
static void popcount(void) {
    uint64_t c = 0;
    REPEAT(for (uint64_t i = 1; i < 512; i++) for (uint64_t x = i * 0x9e3779b97f4a7c15u; x; x &= x - 1) c++);
    sink = c;
}
static void crc(void) {
    static uint32_t table[256];
    static unsigned char a[N];
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++) c = c & 1 ? 0xedb88320u ^ (c >> 1) : c >> 1;
        table[i] = c;
    }
    uint32_t c = ~0u;
    REPEAT(for (int i = 0; i < N; i++) c = table[(c ^ a[i]) & 255] ^ (c >> 8));
    sink = c;
}
static uint64_t fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
static void recursion(void) { REPEAT(sink += fib(16)); }
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static void sorting(void) {
    static int a[1024];
    REPEAT(for (int i = 0; i < 1024; i++) a[i] = (i * 7919 + r) % 1021; qsort(a, 1024, sizeof *a, compare));
    sink = a[3];
}
static void collatz(void) {
    uint64_t steps = 0;
    REPEAT(for (uint64_t i = 1; i < 256; i++) for (uint64_t n = i; n != 1; n = n & 1 ? 3 * n + 1 : n / 2) steps++);
    sink = steps;
}
/* Reads memory that others may write, and works. */
static void polling(void) {
    static _Atomic int stop;
    static uint64_t a[N];
    uint64_t i = 0;
    double end = cpu_s() + budget_s;
    while (!atomic_load(&stop)) {
        a[i % N] += i;
        if ((++i & 0xffff) == 0 && cpu_s() > end) atomic_store(&stop, 1);
    }
    sink = a[5];
}
static void polling_sum(void) {
    static volatile int stop;
    uint64_t x = 1, i = 0;
    double end = cpu_s() + budget_s;
    while (!stop) {
        x = x * 31 + i;
        if ((++i & 0xffff) == 0 && cpu_s() > end) stop = 1;
    }
    sink = x;
}
/* Locks that nobody else wants. */
static void free_spin(void) {
    static pthread_spinlock_t l;
    static uint64_t n;
    pthread_spin_init(&l, 0);
    REPEAT(for (int i = 0; i < 1000; i++) { pthread_spin_lock(&l); n++; pthread_spin_unlock(&l); });
    sink = n;
}
static void free_tas(void) {
    static _Atomic int l;
    static uint64_t n;
    REPEAT(for (int i = 0; i < 1000; i++) {
        while (atomic_exchange_explicit(&l, 1, memory_order_acquire)) __builtin_ia32_pause();
        n++;
        atomic_store_explicit(&l, 0, memory_order_release);
    });
    sink = n;
}
static void free_ttas(void) {
    static _Atomic int l;
    static uint64_t n;
    REPEAT(for (int i = 0; i < 1000; i++) {
        for (;;) {
            while (atomic_load_explicit(&l, memory_order_relaxed)) __builtin_ia32_pause();
            int free_ = 0;
            if (atomic_compare_exchange_weak(&l, &free_, 1)) break;
        }
        n++;
        atomic_store_explicit(&l, 0, memory_order_release);
    });
    sink = n;
}
static void mutex(void) {
    static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
    static uint64_t n;
    REPEAT(for (int i = 0; i < 1000; i++) { pthread_mutex_lock(&m); n++; pthread_mutex_unlock(&m); });
    sink = n;
}
/* Loops that retry only if somebody interferes. */
static void cas_loop(void) {
    static _Atomic uint64_t most;
    REPEAT(for (uint64_t i = 0; i < 1000; i++) {
        uint64_t old = atomic_load(&most);
        while (!atomic_compare_exchange_weak(&most, &old, old + i));
    });
    sink = most;
}
static void seqlock(void) {
    static _Atomic unsigned seq;
    static volatile uint64_t a, b;
    REPEAT(for (int i = 0; i < 1000; i++) {
        unsigned s;
        uint64_t x;
        do {
            while ((s = atomic_load_explicit(&seq, memory_order_acquire)) & 1) __builtin_ia32_pause();
            x = a / 3 + b;
            atomic_thread_fence(memory_order_acquire);
        } while (s != atomic_load_explicit(&seq, memory_order_relaxed));
        sink = x;
    });
}
static void clocks(void) {
    struct timespec t;
    REPEAT(for (int i = 0; i < 100; i++) { clock_gettime(CLOCK_MONOTONIC, &t); sink += t.tv_nsec; });
}
static void calls(void) { REPEAT(for (int i = 0; i < 100; i++) sink += sched_getcpu()); }

#define KERNEL(name) { #name, name }
static const struct { const char *name; void (*run)(void); } kernels[] = {
    KERNEL(daxpy), KERNEL(dot), KERNEL(lcg), KERNEL(xorshift), KERNEL(fill), KERNEL(own_fill), KERNEL(scan),
    KERNEL(own_scan), KERNEL(bubble), KERNEL(chase), KERNEL(hash_walk), KERNEL(popcount), KERNEL(crc),
    KERNEL(recursion), KERNEL(sorting), KERNEL(collatz), KERNEL(polling), KERNEL(polling_sum), KERNEL(free_spin),
    KERNEL(free_tas), KERNEL(free_ttas), KERNEL(mutex), KERNEL(cas_loop), KERNEL(seqlock), KERNEL(clocks),
    KERNEL(calls),
};
enum { KERNELS = sizeof kernels / sizeof *kernels };

static void *start(void *which) {
    long i = (long)which;
    pthread_setname_np(pthread_self(), kernels[i].name);
    kernels[i].run();
    return 0;
}

int main(int argc, char **argv) {
    pthread_t threads[KERNELS];
    budget_s = argc > 1 ? atof(argv[1]) / 1000 : 0.1;
    for (long i = 0; i < KERNELS; i++) pthread_create(&threads[i], 0, start, (void *)i);
    for (int i = 0; i < KERNELS; i++) pthread_join(threads[i], 0);
    return 0;
}
