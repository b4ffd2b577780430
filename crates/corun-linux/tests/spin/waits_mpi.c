/* Two processes that wait for each other in MPI's barrier and know for how long. As in waits.c, one works
 * three times as long as the other, and the other waits for about 8 ms a round. Waits shorter than the time
 * between two samples are not found (see spin/message_passing.rs). This is built without MPI's headers, which
 * few machines have: the few declarations are Open MPI's.
 *
 *   mpirun -np 2 waits_mpi ROUNDS
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

extern char ompi_mpi_comm_world[];
int MPI_Init(int *, char ***);
int MPI_Comm_rank(void *, int *);
int MPI_Barrier(void *);
int MPI_Finalize(void);

static volatile double sink;

static int64_t cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void work(long loops) {
    double x = 1;
    for (long i = 0; i < loops; i++) x = x * 1.0000001 + 1e-9;
    sink = x;
}

int main(int argc, char **argv) {
    int me, rounds = argc > 1 ? atoi(argv[1]) : 300;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(ompi_mpi_comm_world, &me);
    MPI_Barrier(ompi_mpi_comm_world);
    int64_t begin = cpu_ns(), spin = 0;
    for (int r = 0; r < rounds; r++) {
        work(me ? 2400000 : 7200000);
        int64_t before = cpu_ns();
        MPI_Barrier(ompi_mpi_comm_world);
        spin += cpu_ns() - before;
    }
    int64_t total = cpu_ns() - begin;
    printf("%d %s %ld %ld\n", (int)syscall(SYS_gettid), me ? "waits" : "works", (long)total, (long)spin);
    return MPI_Finalize();
}
