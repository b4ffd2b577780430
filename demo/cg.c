/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * cg: a real parallel program that waits by spinning.
 *
 * Solves Poisson's equation on an N x N grid with the conjugate gradient method: the 5-point Laplacian is applied
 * without storing a matrix. Each iteration is a fraction of a millisecond of work between four barriers of OpenMP, so
 * with OMP_WAIT_POLICY=active its threads burn the CPU whenever one of them is held up.
 *
 *   OMP_WAIT_POLICY=active OMP_NUM_THREADS=2 cg 300 8
 *
 * solves a 300 x 300 grid 8 times over. Every solution is checked against the equation itself; exit status 1 and one
 * sentence if it does not hold. Quiet otherwise.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static long side, width; /* the grid, and with a border of zeros around it */

static double *grid(void)
{
	double *cells = calloc((size_t)(width * width), sizeof *cells);

	if (!cells) {
		fprintf(stderr, "cg: no memory for a grid of %ld x %ld; give a smaller N\n", side, side);
		exit(1);
	}
	return cells;
}

#define FOR_EACH_CELL(i)                                                                                      \
	for (long row = 1; row <= side; row++)                                                                \
		for (long i = row * width + 1; i <= row * width + side; i++)

static inline double laplacian(const double *x, long i)
{
	return 4 * x[i] - x[i - 1] - x[i + 1] - x[i - width] - x[i + width];
}

/* Solves "laplacian(x) = b" and returns how many iterations it took. */
static long solve(double *x, const double *b, double *r, double *p, double *q, double tolerance)
{
	double rr = 0, pq, rr_next;
	long iterations = 0;

#pragma omp parallel
	{
#pragma omp for reduction(+ : rr)
		FOR_EACH_CELL(i)
		{
			x[i] = 0;
			p[i] = r[i] = b[i];
			rr += r[i] * r[i];
		}
		double enough = rr * tolerance * tolerance;
#pragma omp barrier
		while (rr > enough && iterations < 20 * side) {
#pragma omp barrier
#pragma omp single
			{
				pq = rr_next = 0;
				iterations++;
			}
#pragma omp for reduction(+ : pq)
			FOR_EACH_CELL(i)
			{
				q[i] = laplacian(p, i);
				pq += p[i] * q[i];
			}
#pragma omp for reduction(+ : rr_next)
			FOR_EACH_CELL(i)
			{
				x[i] += rr / pq * p[i];
				r[i] -= rr / pq * q[i];
				rr_next += r[i] * r[i];
			}
#pragma omp for
			FOR_EACH_CELL(i)
			p[i] = r[i] + rr_next / rr * p[i];
#pragma omp single
			rr = rr_next;
		}
	}
	return iterations;
}

/* How far the solution is from the equation: |b - laplacian(x)| / |b|, from x alone. */
static double error(const double *x, const double *b)
{
	double wrong = 0, whole = 0;

	FOR_EACH_CELL(i)
	{
		double gap = b[i] - laplacian(x, i);

		wrong += gap * gap;
		whole += b[i] * b[i];
	}
	return sqrt(wrong / whole);
}

int main(int count, char **argument)
{
	long times = count > 2 ? atol(argument[2]) : 1;
	double tolerance = 1e-8;

	side = count > 1 ? atol(argument[1]) : 0;
	if (side < 2 || side > 20000 || times < 1) {
		fprintf(stderr, "usage: cg N [TIMES], with N from 2 to 20000 and TIMES from 1\n");
		return 2;
	}
	width = side + 2;
	double *x = grid(), *b = grid(), *r = grid(), *p = grid(), *q = grid();

	for (long time = 0; time < times; time++) {
		FOR_EACH_CELL(i)
		b[i] = sin(0.001 * (double)(i + time)) / (double)(side * side);
		long iterations = solve(x, b, r, p, q, tolerance);
		double wrong = error(x, b);

		if (!(wrong <= 10 * tolerance)) {
			fprintf(stderr, "cg: after %ld iterations the residual is still %g\n", iterations, wrong);
			return 1;
		}
	}
	return 0;
}
