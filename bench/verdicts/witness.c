/* witness OUT CMD...: runs a command and writes to OUT, as JSON, what the clock and the kernel's own accounts say of it. It makes no use of
 * corun: `usage_ns` is the account of the root cgroup, CPU by CPU, and `corun_ns` what the parent, which is corun, took of that.
 * `delay_ns` is how long it waited for a CPU itself before it began. WITNESS_PIDS names tasks whose time is told as well
 * (`neighbours_ns`). */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST_CPUS 1024
typedef long long ns_t;

static ns_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* CPUs, or -1 where this is not known. */
static int usage(ns_t *by_cpu)
{
	FILE *f = fopen("/sys/fs/cgroup/cpuacct/cpuacct.usage_percpu", "r");
	int n = 0;
	if (!f)
		return -1;
	while (n < MOST_CPUS && fscanf(f, "%lld", &by_cpu[n]) == 1)
		n++;
	fclose(f);
	return n;
}

static ns_t task(const char *path)
{
	ns_t ns = 0;
	FILE *f = fopen(path, "r");
	if (f) {
		if (fscanf(f, "%lld", &ns) != 1)
			ns = 0;
		fclose(f);
	}
	return ns;
}

static ns_t process(int pid)
{
	char path[300];
	ns_t ns = 0;
	struct dirent *entry;
	snprintf(path, sizeof path, "/proc/%d/task", pid);
	DIR *tasks = opendir(path);
	while (tasks && (entry = readdir(tasks))) {
		snprintf(path, sizeof path, "/proc/%d/task/%s/schedstat", pid, entry->d_name);
		ns += task(path);
	}
	if (tasks)
		closedir(tasks);
	return ns;
}

static ns_t neighbours(void)
{
	ns_t ns = 0;
	char *pids = getenv("WITNESS_PIDS");
	for (char *pid = pids ? strtok(strdup(pids), ",") : NULL; pid; pid = strtok(NULL, ","))
		ns += process(atoi(pid));
	return ns;
}

/* How long this task has waited for CPUs so far. */
static ns_t waited(void)
{
	ns_t ran, ns = 0;
	FILE *f = fopen("/proc/self/schedstat", "r");
	if (f) {
		if (fscanf(f, "%lld %lld", &ran, &ns) != 2)
			ns = 0;
		fclose(f);
	}
	return ns;
}

static ns_t tv(struct timeval t)
{
	return t.tv_sec * 1000000000LL + t.tv_usec * 1000LL;
}

int main(int argc, char **argv)
{
	static ns_t before[MOST_CPUS], after[MOST_CPUS];
	struct rusage own = { 0 };
	int status = 0;
	if (argc < 3)
		return 2;
	ns_t delay = waited();
	ns_t corun = process(getppid()), others = neighbours();
	int cpus = usage(before);
	ns_t begin = now();
	pid_t child = fork();
	if (child == 0) {
		execvp(argv[2], argv + 2);
		_exit(127);
	}
	wait4(child, &status, 0, &own);
	ns_t wall = now() - begin;
	usage(after);
	corun = process(getppid()) - corun;
	others = neighbours() - others;
	FILE *out = fopen(argv[1], "w");
	if (!out)
		return 2;
	fprintf(out, "{\"wall_ns\": %lld, \"cpu_ns\": %lld, \"corun_ns\": %lld, \"neighbours_ns\": %lld, \"delay_ns\": %lld, \"usage_ns\": [", wall,
		tv(own.ru_utime) + tv(own.ru_stime), corun, others, delay);
	for (int n = 0; n < cpus; n++)
		fprintf(out, "%s%lld", n ? ", " : "", after[n] - before[n]);
	fprintf(out, "]}\n");
	fclose(out);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
