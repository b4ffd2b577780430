/* Prints how many threads OpenBLAS uses after a product, whenever the number changes, and whether the product is right. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { N = 64 };

void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *,
            const double *, const int *, const double *, double *, const int *);
void cblas_dgemm(int, int, int, int, int, int, double, const double *, int, const double *, int, double, double *, int);
int openblas_get_num_threads(void);

static double a[N * N], b[N * N], c[N * N];

static int is_right(void) {
    for (int i = 0; i < N * N; i++)
        if (c[i] != N) return 0;
    return 1;
}

int main(void) {
    int last = 0, n = N;
    double one = 1, zero = 0;
    for (int i = 0; i < N * N; i++) a[i] = b[i] = 1;
    for (;;) {
        int right = 1;
        dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
        right &= is_right();
        cblas_dgemm(101, 111, 111, n, n, n, 1.0, a, n, b, n, 0.0, c, n);
        right &= is_right();
        int threads = openblas_get_num_threads();
        if (threads != last) {
            printf("threads=%d right=%d\n", threads, right);
            fflush(stdout);
        }
        last = threads;
        usleep(1000);
    }
}
