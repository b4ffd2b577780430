/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The triad of the STREAM benchmark, a = b + s * c, over arrays larger than the last-level cache: bound by memory
 * bandwidth, with the threads meeting after every pass of some tens of milliseconds.
 *
 * How they wait is OpenMP's business: OMP_WAIT_POLICY=active spins, passive sleeps. The work depends on nothing but the
 * arguments; the sum that is printed says that all of it was done.
 *
 * usage: triad [MIB_PER_ARRAY [PASSES]]
 */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    long mib = argc > 1 ? atol(argv[1]) : 64, passes = argc > 2 ? atol(argv[2]) : 200;
    if (mib < 1 || mib > 1 << 16 || passes < 1)
        return fprintf(stderr, "usage: triad [MIB_PER_ARRAY [PASSES]]\n"), 2;
    long n = mib * (1 << 17);
    double *a = malloc(n * 8), *b = malloc(n * 8), *c = malloc(n * 8);
    if (!a || !b || !c)
        return perror("triad"), 1;
#pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++)
        a[i] = 0, b[i] = i % 5, c[i] = i % 3;
    for (long pass = 0; pass < passes; pass++) {
        double s = 0.5 + (double)(pass % 2);
#pragma omp parallel for schedule(static)
        for (long i = 0; i < n; i++)
            a[i] = b[i] + s * c[i];
        double *reused = b; /* Each array is source and target in turn. */
        b = c, c = a, a = reused;
#pragma omp parallel for schedule(static)
        for (long i = 0; i < n; i++)
            if (c[i] > 1e6)
                c[i] = 1;
    }
    double sum = 0;
    for (long i = 0; i < n; i++)
        sum += c[i];
    printf("triad: sum %.6e after %ld passes\n", sum, passes);
    return 0;
}
