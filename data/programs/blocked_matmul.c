// SPDX-License-Identifier: MIT
// Matrix products: the plain triple loop, one in blocks, one over a transposed factor, and powers
// by squaring.

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { SIZE = 96, BLOCK = 16 };

typedef double matrix[SIZE][SIZE];
typedef uint32_t residues[SIZE / 4][SIZE / 4];

static matrix left, right, plain, blocked, turned, transposed;

static void fill(matrix m, unsigned seed) {
    for (int i = 0; i < SIZE; i++) {
        for (int j = 0; j < SIZE; j++) {
            seed = seed * 69069u + 1u;
            m[i][j] = (double)((int)(seed >> 24) - 128);
        }
    }
}

static void multiply_plain(matrix a, matrix b, matrix out) {
    for (int i = 0; i < SIZE; i++) {
        for (int j = 0; j < SIZE; j++) {
            double sum = 0;
            for (int k = 0; k < SIZE; k++) {
                sum += a[i][k] * b[k][j];
            }
            out[i][j] = sum;
        }
    }
}

static void multiply_block(matrix a, matrix b, matrix out, int i0, int j0, int k0) {
    for (int i = i0; i < i0 + BLOCK; i++) {
        for (int k = k0; k < k0 + BLOCK; k++) {
            double factor = a[i][k];
            for (int j = j0; j < j0 + BLOCK; j++) {
                out[i][j] += factor * b[k][j];
            }
        }
    }
}

static void multiply_blocked(matrix a, matrix b, matrix out) {
    memset(out, 0, sizeof(matrix));
    for (int i = 0; i < SIZE; i += BLOCK) {
        for (int k = 0; k < SIZE; k += BLOCK) {
            for (int j = 0; j < SIZE; j += BLOCK) {
                multiply_block(a, b, out, i, j, k);
            }
        }
    }
}

static double dot(const double *a, const double *b, int count) {
    double even = 0;
    double odd = 0;
    for (int i = 0; i < count; i += 2) {
        even += a[i] * b[i];
        odd += a[i + 1] * b[i + 1];
    }
    return even + odd;
}

static void multiply_transposed(matrix a, matrix b, matrix out) {
    for (int i = 0; i < SIZE; i++) {
        for (int j = 0; j < SIZE; j++) {
            transposed[j][i] = b[i][j];
        }
    }
    for (int i = 0; i < SIZE; i++) {
        for (int j = 0; j < SIZE; j++) {
            out[i][j] = dot(a[i], transposed[j], SIZE);
        }
    }
}

static void multiply_residues(residues a, residues b, residues out) {
    residues product;
    for (int i = 0; i < SIZE / 4; i++) {
        for (int j = 0; j < SIZE / 4; j++) {
            uint64_t sum = 0;
            for (int k = 0; k < SIZE / 4; k++) {
                sum += (uint64_t)a[i][k] * b[k][j];
            }
            product[i][j] = (uint32_t)(sum % 1000003u);
        }
    }
    memcpy(out, product, sizeof product);
}

static uint32_t power_trace(unsigned exponent) {
    residues base, result;
    for (int i = 0; i < SIZE / 4; i++) {
        for (int j = 0; j < SIZE / 4; j++) {
            base[i][j] = (uint32_t)(i * 7 + j * 3 + 1);
            result[i][j] = i == j;
        }
    }
    for (; exponent > 0; exponent /= 2) {
        if (exponent % 2 == 1) {
            multiply_residues(result, base, result);
        }
        multiply_residues(base, base, base);
    }
    uint32_t trace = 0;
    for (int i = 0; i < SIZE / 4; i++) {
        trace = (trace + result[i][i]) % 1000003u;
    }
    return trace;
}

int main(void) {
    fill(left, 1);
    fill(right, 2);
    multiply_plain(left, right, plain);
    multiply_blocked(left, right, blocked);
    multiply_transposed(left, right, turned);
    int differing = 0;
    double sum = 0;
    for (int i = 0; i < SIZE; i++) {
        for (int j = 0; j < SIZE; j++) {
            // The entries are whole and small: every order of addition is exact.
            differing += plain[i][j] != blocked[i][j] || plain[i][j] != turned[i][j];
            sum += plain[i][j] * ((i + j) % 7);
        }
    }
    printf("differing %d, weighted sum %.0f\n", differing, sum);
    for (unsigned exponent = 1; exponent < 2000; exponent = exponent * 5 + 2) {
        printf("trace of the power %u: %u\n", exponent, (unsigned)power_trace(exponent));
    }
    return 0;
}
