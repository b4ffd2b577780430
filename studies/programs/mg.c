/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Multigrid: V-cycles for Poisson's equation on a square grid, from the finest level down to one of 4 x 4 and back.
 * Each level is smoothed in parallel (damped Jacobi), and the threads meet after every sweep: work of a millisecond on
 * the finest level, of less than a microsecond on the coarsest, so most meetings have next to no work between them.
 *
 * How they wait is OpenMP's business: OMP_WAIT_POLICY=active spins, passive sleeps. The work depends on nothing but the
 * arguments; the norm that is printed says that all of it was done.
 *
 * usage: mg [LEVELS [CYCLES]]      the finest side is 2 to the power of LEVELS
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_LEVELS = 13, SWEEPS = 3 };

static double *u[MOST_LEVELS + 1], *f[MOST_LEVELS + 1], *old[MOST_LEVELS + 1];

static double residual(int level, int i)
{
    int row = (1 << level) + 2;
    const double *v = u[level];
    return f[level][i] - (4 * v[i] - v[i - 1] - v[i + 1] - v[i - row] - v[i + row]);
}

static void smooth(int level)
{
    int side = 1 << level, row = side + 2;
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        double *from = u[level], *to = old[level];
#pragma omp parallel for schedule(static)
        for (int y = 1; y <= side; y++)
            for (int i = y * row + 1; i <= y * row + side; i++)
                to[i] = from[i] + 0.2 * residual(level, i);
        u[level] = to, old[level] = from;
    }
}

static void cycle(int level)
{
    smooth(level);
    if (level == 2)
        return;
    int side = 1 << (level - 1), row = side + 2, fine = 2 * side + 2;
#pragma omp parallel for schedule(static)
    for (int y = 1; y <= side; y++) /* Down: the residual of four cells becomes the right side of one. */
        for (int c = 1; c <= side; c++) {
            int i = (2 * y - 1) * fine + 2 * c - 1;
            u[level - 1][y * row + c] = 0;
            f[level - 1][y * row + c] =
                residual(level, i) + residual(level, i + 1) + residual(level, i + fine) + residual(level, i + fine + 1);
        }
    cycle(level - 1);
#pragma omp parallel for schedule(static)
    for (int y = 1; y <= 2 * side; y++) /* Up: what was found there corrects the four. */
        for (int c = 1; c <= 2 * side; c++)
            u[level][y * fine + c] += u[level - 1][(y + 1) / 2 * row + (c + 1) / 2];
    smooth(level);
}

int main(int argc, char **argv)
{
    int levels = argc > 1 ? atoi(argv[1]) : 9, cycles = argc > 2 ? atoi(argv[2]) : 300;
    if (levels < 3 || levels > MOST_LEVELS || cycles < 1)
        return fprintf(stderr, "usage: mg [LEVELS [CYCLES]]\n"), 2;
    for (int level = 2; level <= levels; level++) {
        size_t n = (size_t)((1 << level) + 2) * ((1 << level) + 2);
        u[level] = calloc(n, 8), f[level] = calloc(n, 8), old[level] = calloc(n, 8);
        if (!u[level] || !f[level] || !old[level])
            return perror("mg"), 1;
    }
    int side = 1 << levels, row = side + 2;
    for (int y = 1; y <= side; y++)
        for (int c = 1; c <= side; c++)
            f[levels][y * row + c] = (y * 31 + c * 17) % 13 - 6;
    for (int i = 0; i < cycles; i++)
        cycle(levels);
    double norm = 0;
    for (int y = 1; y <= side; y++)
        for (int c = 1; c <= side; c++)
            norm += pow(residual(levels, y * row + c), 2);
    printf("mg: residual %.6e after %d cycles\n", sqrt(norm), cycles);
    return 0;
}
