// SPDX-License-Identifier: MIT
// Linear systems: LU decomposition with row exchanges, determinant, solution, and the error that
// remains.

#include <stdio.h>
#include <stdlib.h>

enum { SIZE_MAX_ROWS = 60 };

struct system {
    int size;
    int exchanges;
    int row[SIZE_MAX_ROWS];
    double a[SIZE_MAX_ROWS][SIZE_MAX_ROWS];
};

static double magnitude(double x) {
    return x < 0 ? -x : x;
}

static double entry(unsigned *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return (double)(*seed >> 16) / 65536.0 - 0.5;
}

static void fill(struct system *s, int size, unsigned seed) {
    s->size = size;
    s->exchanges = 0;
    for (int i = 0; i < size; i++) {
        s->row[i] = i;
        for (int j = 0; j < size; j++) {
            s->a[i][j] = entry(&seed);
        }
    }
}

static int pivot_row(const struct system *s, int column) {
    int best = column;
    for (int i = column + 1; i < s->size; i++) {
        if (magnitude(s->a[i][column]) > magnitude(s->a[best][column])) {
            best = i;
        }
    }
    return best;
}

static void exchange(struct system *s, int i, int k) {
    for (int j = 0; j < s->size; j++) {
        double held = s->a[i][j];
        s->a[i][j] = s->a[k][j];
        s->a[k][j] = held;
    }
    int held = s->row[i];
    s->row[i] = s->row[k];
    s->row[k] = held;
    s->exchanges++;
}

static int decompose(struct system *s) {
    for (int k = 0; k < s->size; k++) {
        int pivot = pivot_row(s, k);
        if (s->a[pivot][k] == 0) {
            return 0;
        }
        if (pivot != k) {
            exchange(s, pivot, k);
        }
        for (int i = k + 1; i < s->size; i++) {
            double factor = s->a[i][k] /= s->a[k][k];
            for (int j = k + 1; j < s->size; j++) {
                s->a[i][j] -= factor * s->a[k][j];
            }
        }
    }
    return 1;
}

static void solve(const struct system *s, const double *right, double *x) {
    for (int i = 0; i < s->size; i++) {
        x[i] = right[s->row[i]];
        for (int j = 0; j < i; j++) {
            x[i] -= s->a[i][j] * x[j];
        }
    }
    for (int i = s->size - 1; i >= 0; i--) {
        for (int j = i + 1; j < s->size; j++) {
            x[i] -= s->a[i][j] * x[j];
        }
        x[i] /= s->a[i][i];
    }
}

static double determinant(const struct system *s) {
    double product = s->exchanges % 2 ? -1 : 1;
    for (int i = 0; i < s->size; i++) {
        product *= 4 * s->a[i][i];
    }
    return product;
}

static double residual(const struct system *original, const double *x, const double *right) {
    double worst = 0;
    for (int i = 0; i < original->size; i++) {
        double sum = -right[i];
        for (int j = 0; j < original->size; j++) {
            sum += original->a[i][j] * x[j];
        }
        worst = magnitude(sum) > worst ? magnitude(sum) : worst;
    }
    return worst;
}

int main(void) {
    static struct system original, factored;
    double right[SIZE_MAX_ROWS], x[SIZE_MAX_ROWS];
    for (int size = 4; size <= SIZE_MAX_ROWS; size += 8) {
        fill(&original, size, (unsigned)size);
        fill(&factored, size, (unsigned)size);
        if (!decompose(&factored)) {
            printf("singular at %d\n", size);
            return EXIT_FAILURE;
        }
        double total = 0;
        for (int i = 0; i < size; i++) {
            right[i] = 1.0 / (i + 1);
        }
        solve(&factored, right, x);
        for (int i = 0; i < size; i++) {
            total += x[i];
        }
        printf("%2d: exchanges %d, determinant %.6e, sum %.6f, residual %s\n", size,
            factored.exchanges,
               determinant(&factored), total, residual(&original, x, right) < 1e-10
                   ? "small" : "large");
    }
    return EXIT_SUCCESS;
}
