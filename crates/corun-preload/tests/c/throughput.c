/* Measures the throughput for a number of seconds, in steps per second. With OpenMP a step is a parallel region, otherwise a product of
 * OpenBLAS. For bench/adapt.py. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Seconds that are excluded from the measurement. */
#define WARM_UP 0.3

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

#ifdef _OPENMP
/* About 2 ms of work for one thread, in equal parts with a barrier at the end, as in solvers. */
static double step(void) {
    double sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (int i = 0; i < 200; i++) {
        double x = i;
        for (int n = 0; n < 5000; n++) x = x * 0.999 + 0.5;
        sum += x;
    }
    return sum;
}
#else
enum { N = 384 };

void cblas_dgemm(int, int, int, int, int, int, double, const double *, int, const double *, int, double, double *, int);

static double a[N * N], b[N * N], c[N * N];

static double step(void) {
    if (a[0] == 0)
        for (int i = 0; i < N * N; i++) a[i] = b[i] = 1;
    cblas_dgemm(101, 111, 111, N, N, N, 1.0, a, N, b, N, 0.0, c, N);
    return c[0];
}
#endif

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    double begin = now(), sum = 0;
    /* Nothing is known in the first moments of a program. Another measurement shows how soon it adapts. */
    while (now() < begin + WARM_UP) sum += step();
    begin = now();
    long steps = 0;
    for (double end = begin + atof(argv[1]); now() < end; steps++) sum += step();
    printf("%f\n", steps / (now() - begin));
    return sum < 0;
}
