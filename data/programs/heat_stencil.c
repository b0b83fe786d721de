// SPDX-License-Identifier: MIT
// Heat on a plate: five-point stencils by two sweeps, over-relaxation, and a wave in three
// dimensions.

#include <stdio.h>
#include <string.h>

enum { SIDE = 48, DEPTH = 16 };

typedef double plate[SIDE][SIDE];

static plate now, then, sources;
static float wave[2][DEPTH][DEPTH][DEPTH];

static void begin(plate p) {
    memset(p, 0, sizeof(plate));
    for (int i = 0; i < SIDE; i++) {
        p[0][i] = 100;
        p[i][0] = 100.0 * (SIDE - 1 - i) / (SIDE - 1);
        p[SIDE - 1][i] = 25.0 * i / (SIDE - 1);
    }
}

static double magnitude(double x) {
    return x < 0 ? -x : x;
}

static double jacobi(plate from, plate to) {
    double change = 0;
    for (int i = 1; i < SIDE - 1; i++) {
        for (int j = 1; j < SIDE - 1; j++) {
            double mean = 0.25 * (from[i - 1][j] + from[i + 1][j] + from[i][j - 1]
                + from[i][j + 1]);
            to[i][j] = mean + sources[i][j];
            change = magnitude(to[i][j] - from[i][j]) > change
                ? magnitude(to[i][j] - from[i][j]) : change;
        }
    }
    return change;
}

static double over_relax(plate p, int colour, double factor) {
    double change = 0;
    for (int i = 1; i < SIDE - 1; i++) {
        for (int j = 1 + (i + colour) % 2; j < SIDE - 1; j += 2) {
            double mean = 0.25 * (p[i - 1][j] + p[i + 1][j] + p[i][j - 1] + p[i][j + 1])
                + sources[i][j];
            double move = factor * (mean - p[i][j]);
            p[i][j] += move;
            change = magnitude(move) > change ? magnitude(move) : change;
        }
    }
    return change;
}

static double mean_of(plate p) {
    double sum = 0;
    for (int i = 0; i < SIDE; i++) {
        for (int j = 0; j < SIDE; j++) {
            sum += p[i][j];
        }
    }
    return sum / (SIDE * SIDE);
}

static int settle_by_jacobi(int sweeps_max) {
    begin(now);
    begin(then);
    for (int sweep = 0; sweep < sweeps_max; sweep += 2) {
        jacobi(now, then);
        if (jacobi(then, now) < 1e-3) {
            return sweep + 2;
        }
    }
    return sweeps_max;
}

static int settle_by_colours(int sweeps_max, double factor) {
    begin(now);
    for (int sweep = 1; sweep <= sweeps_max; sweep++) {
        double black = over_relax(now, 0, factor);
        double red = over_relax(now, 1, factor);
        if (black < 1e-3 && red < 1e-3) {
            return sweep;
        }
    }
    return sweeps_max;
}

static float laplacian(float field[DEPTH][DEPTH][DEPTH], int i, int j, int k) {
    return field[i - 1][j][k] + field[i + 1][j][k] + field[i][j - 1][k] + field[i][j + 1][k] +
           field[i][j][k - 1] + field[i][j][k + 1] - 6 * field[i][j][k];
}

static void advance_wave(int current) {
    for (int i = 1; i < DEPTH - 1; i++) {
        for (int j = 1; j < DEPTH - 1; j++) {
            for (int k = 1; k < DEPTH - 1; k++) {
                float here = wave[current][i][j][k];
                wave[1 - current][i][j][k] =
                    2 * here - wave[1 - current][i][j][k] + 0.125f * laplacian(wave[current], i, j,
                        k);
            }
        }
    }
}

int main(void) {
    sources[SIDE / 3][SIDE / 2] = 2;
    int sweeps = settle_by_jacobi(4000);
    printf("jacobi: %d sweeps, mean %.4f, middle %.4f\n", sweeps, mean_of(now),
        now[SIDE / 2][SIDE / 2]);
    for (int tenths = 10; tenths <= 19; tenths += 3) {
        sweeps = settle_by_colours(4000, tenths / 10.0);
        printf("factor 1.%d: %d sweeps, mean %.4f, middle %.4f\n", tenths - 10, sweeps,
            mean_of(now),
               now[SIDE / 2][SIDE / 2]);
    }
    wave[0][DEPTH / 2][DEPTH / 2][DEPTH / 2] = 1;
    for (int step = 0; step < 60; step++) {
        advance_wave(step % 2);
    }
    double squares = 0;
    for (int i = 0; i < DEPTH; i++) {
        for (int j = 0; j < DEPTH; j++) {
            for (int k = 0; k < DEPTH; k++) {
                squares += (double)wave[0][i][j][k] * wave[0][i][j][k];
            }
        }
    }
    printf("wave: %.5f\n", squares);
    return 0;
}
