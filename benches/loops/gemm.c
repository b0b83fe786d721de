// SPDX-License-Identifier: MIT
// Measures OpenBLAS: `gemm N THREADS ROUNDS`. Prints the seconds of the best product of two square
// matrices of 32-bit numbers, and what the library says of itself.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

// As in `cblas.h`, of which a machine may have several.
extern void cblas_sgemm(int, int, int, int, int, int, float, const float *, int, const float *, int,
                        float, float *, int);
extern void openblas_set_num_threads(int);
extern char *openblas_get_config(void);
extern char *openblas_get_corename(void);

enum { ROW_MAJOR = 101, AS_IT_IS = 111 };

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int count, char **arguments) {
    if (count != 4) return 2;
    int n = atoi(arguments[1]), rounds = atoi(arguments[3]);
    openblas_set_num_threads(atoi(arguments[2]));
    size_t bytes = (size_t)n * (size_t)n * sizeof(float);
    float *a = aligned_alloc(4096, bytes), *b = aligned_alloc(4096, bytes);
    float *c = aligned_alloc(4096, bytes);
    if (!a || !b || !c) return 2;
    for (size_t i = 0; i < (size_t)n * (size_t)n; i++) a[i] = b[i] = (float)(i % 7) - 3;
    double best = 1e9;
    for (int round = 0; round < rounds; round++) {
        double begin = now();
        cblas_sgemm(ROW_MAJOR, AS_IT_IS, AS_IT_IS, n, n, n, 1, a, n, b, n, 0, c, n);
        double time = now() - begin;
        if (time < best) best = time;
    }
    printf("%.9f\n%s, %s\n", best, openblas_get_config(), openblas_get_corename());
    return 0;
}
