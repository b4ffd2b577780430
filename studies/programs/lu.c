/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The wavefront of an LU (SSOR) solver: every cell needs its left and upper neighbour, so the columns are dealt to the
 * threads and a block of rows flows through them as through a pipeline, forwards and then backwards. The threads do
 * not meet in barriers within a sweep; each waits for the one before it to have finished the block.
 *
 * With OMP_WAIT_POLICY=passive they wait in semaphores, else they spin on a counter, as solvers of this kind do. The
 * work depends on nothing but the arguments; the sum that is printed says that all of it was done.
 *
 * usage: lu [SIDE [SWEEPS]]
 */
#include <omp.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 8, MOST_THREADS = 64 };

/* Blocks that a thread has finished: a line of its own for each. */
static struct { _Alignas(64) atomic_long finished; sem_t ready; } stage[MOST_THREADS];
static int passive;

static void wait_for(int thread, long block)
{
    if (passive)
        while (sem_wait(&stage[thread].ready)) { }
    else
        while (atomic_load_explicit(&stage[thread].finished, memory_order_acquire) < block)
            __builtin_ia32_pause();
}

static void finish(int thread, long block)
{
    atomic_store_explicit(&stage[thread].finished, block, memory_order_release);
    if (passive)
        sem_post(&stage[thread].ready);
}

int main(int argc, char **argv)
{
    int side = argc > 1 ? atoi(argv[1]) : 768, sweeps = argc > 2 ? atoi(argv[2]) : 600;
    if (side < BLOCK || side > 20000 || sweeps < 1)
        return fprintf(stderr, "usage: lu [SIDE [SWEEPS]]\n"), 2;
    const char *policy = getenv("OMP_WAIT_POLICY");
    passive = policy && !strcasecmp(policy, "passive");
    int row = side + 2, blocks = (side + BLOCK - 1) / BLOCK;
    double *u = malloc(sizeof(double) * row * row);
    if (!u)
        return perror("lu"), 1;
    for (int i = 0; i < row * row; i++)
        u[i] = i % 7;
    for (int t = 0; t < MOST_THREADS; t++)
        sem_init(&stage[t].ready, 0, 0);
    if (omp_get_max_threads() > MOST_THREADS)
        omp_set_num_threads(MOST_THREADS);
#pragma omp parallel
    {
        int me = omp_get_thread_num(), all = omp_get_num_threads();
        int from = 1 + (int)((long)side * me / all), to = (int)((long)side * (me + 1) / all);
        for (long sweep = 0; sweep < sweeps; sweep++) {
            int forwards = sweep % 2 == 0, before = forwards ? me - 1 : me + 1;
            for (long b = 0; b < blocks; b++) {
                long done = sweep * blocks + b + 1;
                if (before >= 0 && before < all)
                    wait_for(before, done);
                for (int k = 0; k < BLOCK && b * BLOCK + k < side; k++) {
                    int y = (int)(b * BLOCK) + k + 1, step = forwards ? 1 : -1;
                    int line = (forwards ? y : side + 1 - y) * row, c = forwards ? from : to;
                    for (int n = from; n <= to; n++, c += step) {
                        double *cell = u + line + c;
                        *cell = 0.4 * *cell + 0.3 * cell[-step] + 0.3 * cell[-step * row];
                    }
                }
                /* The last of a pipeline has nobody to tell. */
                if (forwards ? me + 1 < all : me > 0)
                    finish(me, done);
            }
#pragma omp barrier
        }
    }
    double sum = 0;
    for (int i = 0; i < row * row; i++)
        sum += u[i];
    printf("lu: sum %.6e after %d sweeps\n", sum, sweeps);
    return 0;
}
