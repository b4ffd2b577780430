/* Prints the team sizes of its parallel regions whenever the first one changes. With an argument no region has a clause. */
#include <omp.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int last = 0;
    (void)argv;
    for (;;) {
        int free = 0, clause = 0, loop = 0, inner = 0, sum = 0;
        int most = omp_get_max_threads();
#pragma omp parallel
        {
#pragma omp single
            free = omp_get_num_threads();
        }
        if (argc == 1) {
#pragma omp parallel num_threads(2)
            {
#pragma omp single
                clause = omp_get_num_threads();
            }
        }
#pragma omp parallel for schedule(dynamic, 1) reduction(+ : sum)
        for (int i = 0; i < 100; i++) {
            sum += i;
            if (i == 0) loop = omp_get_num_threads();
        }
#pragma omp parallel
        {
#pragma omp parallel
            {
#pragma omp single
                inner = omp_get_num_threads();
            }
        }
        if (free != last) {
            printf("free=%d clause=%d loop=%d inner=%d sum=%d most=%d after=%d\n", free, clause, loop, inner, sum, most,
                   omp_get_max_threads());
            fflush(stdout);
        }
        last = free;
        usleep(1000);
    }
}
