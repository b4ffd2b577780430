/* Waits for a line of input, then prints the number of CPUs from three functions. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <sys/sysinfo.h>
#include <unistd.h>

int main(void) {
    cpu_set_t set;
    do {
        long online = sysconf(_SC_NPROCESSORS_ONLN), configured = sysconf(_SC_NPROCESSORS_CONF);
        sched_getaffinity(0, sizeof set, &set);
        printf("online=%ld nprocs=%d mask=%d configured=%ld\n", online, get_nprocs(), CPU_COUNT(&set), configured);
        fflush(stdout);
    } while (getchar() != EOF);
}
