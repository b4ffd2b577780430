/* Two processes on one CPU that hand a token to each other: so many switches a second, evenly, until killed. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc != 3)
		return fprintf(stderr, "usage: switcher CPU SWITCHES_A_SECOND\n"), 2;
	cpu_set_t cpus;
	CPU_ZERO(&cpus);
	CPU_SET(atoi(argv[1]), &cpus);
	int there[2], back[2];
	char token = 0;
	if (sched_setaffinity(0, sizeof cpus, &cpus) || pipe(there) || pipe(back))
		return perror("switcher"), 1;
	pid_t parent = getpid(), child = fork();
	if (child < 0)
		return perror("switcher"), 1;
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			return 1;
		while (read(there[0], &token, 1) == 1 && write(back[1], &token, 1) == 1)
			;
		return 1;
	}
	// A round trip has two switches; a hundredth of a second's worth at a time.
	int trips = atoi(argv[2]) / 200;
	struct timespec next;
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (;;) {
		for (int i = 0; i < trips; i++)
			if (write(there[1], &token, 1) != 1 || read(back[0], &token, 1) != 1)
				return perror("switcher"), 1;
		next.tv_nsec += 10000000;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
}
