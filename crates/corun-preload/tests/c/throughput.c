/* Throughput of a kernel for so many seconds, in steps a second: `throughput openmp|openblas SECONDS`. For examples/cells.rs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N = 384 };

void cblas_dgemm(int, int, int, int, int, int, double, const double *, int, const double *, int, double, double *, int);

static double a[N * N], b[N * N], c[N * N];

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

/* Some 2 ms of work for one thread, in equal parts with a barrier at the end, as solvers have it. */
static double region(void) {
    double sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (int i = 0; i < 200; i++) {
        double x = i;
        for (int n = 0; n < 5000; n++) x = x * 0.999 + 0.5;
        sum += x;
    }
    return sum;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    int is_openmp = strcmp(argv[1], "openmp") == 0;
    double begin = now(), end = begin + atof(argv[2]), sum = 0;
    long steps = 0;
    for (int i = 0; i < N * N; i++) a[i] = b[i] = 1;
    for (; now() < end; steps++) {
        if (is_openmp)
            sum += region();
        else
            cblas_dgemm(101, 111, 111, N, N, N, 1.0, a, N, b, N, 0.0, c, N);
    }
    printf("%f\n", steps / (now() - begin));
    return sum < 0;
}
