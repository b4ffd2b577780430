/* witness OUT CMD...: runs a command and writes to OUT, as JSON, what the clock and the kernel's own accounts say of it. It makes no use of
 * corun: `usage_ns` is the account of the root cgroup, CPU by CPU, and `corun_ns` what the parent, which is corun, took of that.
 * `kernel_ns` is what the kernel's own threads took of it, anywhere, and `bound_ns` the part of those that may run on one CPU only, CPU by
 * CPU. `delay_ns` is how long it waited for a CPU itself before it began, `life_ns` how long it was there in all: `wall_ns` and what reading
 * the accounts took. WITNESS_PIDS names tasks whose time is told as well (`neighbours_ns`). */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST_CPUS 1024
#define KERNEL_THREAD 0x00200000 /* the flag PF_KTHREAD in /proc/PID/stat */
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
		if (entry->d_name[0] == '.') /* `..` has a schedstat of its own: that of the first thread */
			continue;
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

/* All of the kernel's threads; those that may run on one CPU only, by CPU as well. They are processes of one thread. */
static ns_t kernel(ns_t *bound)
{
	ns_t ns = 0;
	struct dirent *entry;
	DIR *all = opendir("/proc");
	memset(bound, 0, MOST_CPUS * sizeof *bound);
	while (all && (entry = readdir(all))) {
		char path[300], line[1024];
		unsigned flags = 0;
		int pid = atoi(entry->d_name);
		FILE *f;
		if (pid <= 0)
			continue;
		snprintf(path, sizeof path, "/proc/%d/stat", pid);
		f = fopen(path, "r");
		if (!f)
			continue;
		char *name_end = fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL;
		fclose(f);
		if (!name_end || sscanf(name_end + 1, " %*c %*d %*d %*d %*d %*d %u", &flags) != 1 || !(flags & KERNEL_THREAD))
			continue;
		snprintf(path, sizeof path, "/proc/%d/schedstat", pid);
		ns_t own = task(path);
		cpu_set_t may;
		ns += own;
		if (sched_getaffinity(pid, sizeof may, &may) == 0 && CPU_COUNT(&may) == 1)
			for (int cpu = 0; cpu < MOST_CPUS; cpu++)
				if (CPU_ISSET(cpu, &may))
					bound[cpu] += own;
	}
	if (all)
		closedir(all);
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

static void list(FILE *out, const char *name, int cpus, const ns_t *before, const ns_t *after)
{
	fprintf(out, ", \"%s\": [", name);
	for (int n = 0; n < cpus; n++)
		fprintf(out, "%s%lld", n ? ", " : "", after[n] - before[n]);
	fprintf(out, "]");
}

int main(int argc, char **argv)
{
	static ns_t before[MOST_CPUS], after[MOST_CPUS], bound_before[MOST_CPUS], bound_after[MOST_CPUS];
	struct rusage own = { 0 };
	int status = 0;
	if (argc < 3)
		return 2;
	ns_t life = now(), delay = waited();
	ns_t in_kernel = kernel(bound_before);
	ns_t corun = process(getppid()), others = neighbours();
	int cpus = usage(before);
	const char *pipe = getenv("WITNESS_TELLS");
	int told = pipe ? open(pipe, O_WRONLY | O_NONBLOCK) : -1;
	if (told >= 0 && write(told, "!", 1) == 1)
		close(told);
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
	in_kernel = kernel(bound_after) - in_kernel;
	FILE *out = fopen(argv[1], "w");
	if (!out)
		return 2;
	fprintf(out, "{\"wall_ns\": %lld, \"cpu_ns\": %lld, \"corun_ns\": %lld, \"neighbours_ns\": %lld, \"kernel_ns\": %lld, \"delay_ns\": %lld, "
		"\"life_ns\": %lld", wall, tv(own.ru_utime) + tv(own.ru_stime), corun, others, in_kernel, delay, now() - life);
	list(out, "usage_ns", cpus, before, after);
	list(out, "bound_ns", cpus, bound_before, bound_after);
	fprintf(out, "}\n");
	fclose(out);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
