/* Checks everything that libcorun promises to a C program. It prints a line for each failed check, and exits with their number,
 * or with 100 if CORUN_ADAPT is not a mode. */
#define _GNU_SOURCE
#include <corun.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int failures;

static void equal(int line, const char *what, long got, long wanted) {
    if (got != wanted) {
        printf("line %d: %s is %ld (%s), not %ld\n", line, what, got, corun_text((int)got), wanted);
        failures++;
    }
}
#define EQUAL(got, wanted) equal(__LINE__, #got, (long)(got), (long)(wanted))
#define HOLDS(what) equal(__LINE__, #what, (what) ? 1 : 0, 1)

static corun *c;
static int heard, heard_threads;

static void on_change(void *given, int threads) {
    HOLDS(given == &heard);
    heard++;
    heard_threads = threads;
    /* A callback may call any function. */
    EQUAL(corun_threads(c), threads);
}

static void *join_taken(void *unused) {
    (void)unused;
    EQUAL(corun_join(c, 0), CORUN_TAKEN);
    EQUAL(corun_join(c, 1), 0);
    for (int i = 0; i < 1000; i++) EQUAL(corun_beat(c, 1), 0);
    EQUAL(corun_leave(c, 1), 0);
    EQUAL(corun_beat(c, 1), CORUN_NOT_JOINED);
    return NULL;
}

static volatile int parks;

static void *park(void *unused) {
    (void)unused;
    EQUAL(corun_join(c, 2), 0);
    while (corun_is_wanted(c, 2) == 1) {
        corun_beat(c, 2);
        usleep(1000);
    }
    EQUAL(corun_park(c, 2, 0), 0);
    parks = 1;
    EQUAL(corun_park(c, 2, UINT64_MAX), 1);
    return NULL;
}

static void bad_input(void) {
    corun_published published;
    EQUAL(corun_open(CORUN_ABI + 1, 1, 0, &c), CORUN_OTHER_ABI);
    EQUAL(corun_open(CORUN_ABI, 1, 0, NULL), CORUN_NULL);
    EQUAL(corun_threads(NULL), CORUN_NULL);
    EQUAL(corun_refresh(NULL), CORUN_NULL);
    EQUAL(corun_peer(getpid(), NULL), CORUN_NULL);
    EQUAL(corun_peer(getpid(), &published), CORUN_NO_PAGE);
    EQUAL(corun_peer(0x7ffffff0, &published), CORUN_PAGE_DENIED);
    corun_close(NULL);
}

static void answers(void) {
    char text[256], start[8];
    EQUAL(corun_available(c), CORUN_NOT_KNOWN);
    EQUAL(corun_threads(c), 3);
    EQUAL(corun_on_change(c, on_change, &heard), 0);
    usleep(80000);
    EQUAL(corun_refresh(c), 1);
    EQUAL(corun_refresh(c), 0);
    HOLDS(corun_available(c) >= 0);
    HOLDS(corun_guaranteed(c) >= CORUN_NOT_KNOWN);
    HOLDS(corun_threads(c) >= 1 && corun_threads(c) <= 3);
    int length = corun_reason(c, text, sizeof text);
    HOLDS(length > 0 && (size_t)length == strlen(text));
    EQUAL(corun_reason(c, start, sizeof start), length);
    HOLDS(strlen(start) == 7 && strncmp(start, text, 7) == 0);
    EQUAL(corun_reason(c, NULL, 0), length);
    EQUAL(corun_reason(c, NULL, 9), CORUN_NULL);
    HOLDS(corun_cpus() >= 1);
    EQUAL(corun_set_mode(c, 3), CORUN_BAD_MODE);
    /* Without adapting the number is the most. The callback is called only if the number changes. */
    int before = corun_threads(c), heard_before = heard;
    EQUAL(corun_set_mode(c, CORUN_OFF), 0);
    corun_refresh(c);
    EQUAL(corun_threads(c), 3);
    EQUAL(heard - heard_before, before == 3 ? 0 : 1);
    if (heard > 0) EQUAL(heard_threads, 3);
    EQUAL(corun_on_change(c, NULL, NULL), 0);
}

static void workers(void) {
    pthread_t thread;
    EQUAL(corun_join(c, 0), CORUN_NO_CREW);
    EQUAL(corun_workers(c, 0, 0), CORUN_NO_WORKERS);
    EQUAL(corun_workers(c, UINT32_MAX, 0), CORUN_TOO_MANY_WORKERS);
    EQUAL(corun_workers(c, 3, 0), 0);
    EQUAL(corun_workers(c, 3, 0), CORUN_HAS_CREW);
    EQUAL(corun_join(c, 3), CORUN_NO_SUCH_WORKER);
    EQUAL(corun_beat(c, 0), CORUN_NOT_JOINED);
    EQUAL(corun_stolen(c, 0), CORUN_NOT_JOINED);
    EQUAL(corun_heir(c, 0), CORUN_NOBODY);
    EQUAL(corun_join(c, 0), 0);
    EQUAL(corun_is_wanted(c, 0), 1);
    HOLDS(corun_stolen(c, 0) <= 1000);
    pthread_create(&thread, NULL, join_taken, NULL);
    pthread_join(thread, NULL);
    corun_beat(c, 0);
    corun_on_cpu(c, 0);
    corun_beat(c, 0);
    EQUAL(corun_on_cpu(c, 0), 1);

    pthread_create(&thread, NULL, park, NULL);
    while (corun_beat(c, 2) == CORUN_NOT_JOINED) usleep(100);
    /* Other work on the machine decides whether it is on a CPU now. */
    int heir = corun_heir(c, 0);
    HOLDS(heir == 2 || heir == CORUN_NOBODY);
    corun *narrow = c;
    /* One of two workers is to stop. If it is worker 0, this thread wakes it and tries again. */
    EQUAL(corun_set_mode(narrow, CORUN_ON), 0);
    while (corun_is_wanted(c, 2) == 1 && !parks) {
        usleep(60000);
        corun_refresh(c);
        if (corun_is_wanted(c, 0) == 0) EQUAL(corun_wake(c, 0), 0);
        if (corun_threads(c) > 1) break;
    }
    if (corun_is_wanted(c, 2) == 1) {
        /* The machine has CPUs for all, so no worker has to stop. Cancel the thread. */
        printf("skipped: parking, since there are CPUs for all\n");
        pthread_cancel(thread);
    } else {
        while (!parks) usleep(100);
        EQUAL(corun_on_cpu(c, 2), 0);
        EQUAL(corun_wake(c, 2), 0);
    }
    pthread_join(thread, NULL);
}

static void pages(void) {
    corun_published published;
    /* A file of this process with the name of a page and another version. */
    uint64_t words[512] = {0, 9, (uint64_t)getpid()};
    memcpy(words, "corunpg", 8);
    int fd = memfd_create("corun-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    HOLDS(write(fd, words, sizeof words) == sizeof words);
    EQUAL(corun_peer(getpid(), &published), CORUN_PAGE_FOREIGN);
    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
    EQUAL(corun_peer(getpid(), &published), CORUN_PAGE_VERSION);
    close(fd);
    EQUAL(corun_progress(c, 1), CORUN_NO_PAGE);
    EQUAL(corun_publish(c), 0);
    EQUAL(corun_publish(c), 0);
    EQUAL(corun_progress(c, 5), 0);
    EQUAL(corun_progress(c, 2), 0);
    EQUAL(corun_peer(getpid(), &published), 0);
    EQUAL(published.least, 1);
    EQUAL(published.most, 3);
    EQUAL(published.progress, 7);
}

static void forked(void) {
    pid_t child = fork();
    if (child == 0) {
        failures = 0;
        EQUAL(corun_threads(c), CORUN_FORKED);
        EQUAL(corun_refresh(c), CORUN_FORKED);
        EQUAL(corun_beat(c, 0), CORUN_FORKED);
        EQUAL(corun_park(c, 0, 1), CORUN_FORKED);
        corun_close(c);
        HOLDS(corun_cpus() >= 1);
        EQUAL(corun_open(CORUN_ABI, 1, 2, &c), 0);
        EQUAL(corun_threads(c), 2);
        corun_close(c);
        fflush(stdout);
        _exit(failures);
    }
    int status = 1;
    waitpid(child, &status, 0);
    EQUAL(status, 0);
    HOLDS(corun_threads(c) >= 1);
}

/* In a process that gets no more memory nothing crashes. Functions that need memory return a code, and open handles go on. */
static void no_memory(void) {
    pid_t child = fork();
    if (child == 0) {
        failures = 0;
        EQUAL(corun_open(CORUN_ABI, 1, 2, &c), 0);
        struct rlimit nothing = {0, 0};
        setrlimit(RLIMIT_AS, &nothing);
        EQUAL(corun_publish(c), CORUN_NO_MEMORY);
        EQUAL(corun_progress(c, 1), CORUN_NO_PAGE);
        EQUAL(corun_workers(c, 4096, 0), CORUN_NO_MEMORY);
        EQUAL(corun_join(c, 0), CORUN_NO_CREW);
        HOLDS(corun_refresh(c) >= 0);
        HOLDS(corun_threads(c) >= 1);
        corun_close(c);
        fflush(stdout);
        _exit(failures);
    }
    int status = 1;
    waitpid(child, &status, 0);
    EQUAL(status, 0);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    EQUAL(corun_abi(), CORUN_ABI);
    bad_input();
    if (corun_open(CORUN_ABI, 1, 3, &c) == CORUN_BAD_MODE) return 100;
    answers();
    pages();
    forked();
    no_memory();
    workers();
    corun_close(c);
    return failures > 99 ? 99 : failures;
}
