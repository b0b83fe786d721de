// SPDX-License-Identifier: MIT
// Fractals by escape time: in floating point, in fixed point, along borders, and drawn coarsely.

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { COLUMNS = 120, ROWS = 80, ITERATIONS = 200, FRACTION_BITS = 28, UNKNOWN = 0xffff };

static uint16_t float_map[ROWS][COLUMNS], fixed_map[ROWS][COLUMNS], border_map[ROWS][COLUMNS];
static int evaluated;

static int in_float(double x, double y) {
    double re = 0, im = 0;
    int count = 0;
    while (count < ITERATIONS && re * re + im * im <= 4) {
        double next = re * re - im * im + x;
        im = 2 * re * im + y;
        re = next;
        count++;
    }
    return count;
}

static int64_t fixed_times(int64_t a, int64_t b) {
    return a * b / ((int64_t)1 << FRACTION_BITS);
}

static int in_fixed(int64_t x, int64_t y) {
    const int64_t four = (int64_t)4 << FRACTION_BITS;
    int64_t re = 0, im = 0;
    for (int count = 0; count < ITERATIONS; count++) {
        int64_t re2 = fixed_times(re, re);
        int64_t im2 = fixed_times(im, im);
        if (re2 + im2 > four) {
            return count;
        }
        im = 2 * fixed_times(re, im) + y;
        re = re2 - im2 + x;
    }
    return ITERATIONS;
}

static double real_part(int column) {
    return -2.2 + 3.2 * column / COLUMNS;
}

static double imaginary_part(int row) {
    return -1.2 + 2.4 * row / ROWS;
}

static int at_border(int row, int column) {
    if (border_map[row][column] == UNKNOWN) {
        border_map[row][column] = (uint16_t)in_float(real_part(column), imaginary_part(row));
        evaluated++;
    }
    return border_map[row][column];
}

// A rectangle whose border is of one colour is of that colour inside: the set is connected.
static void subdivide(int top, int left, int bottom, int right) {
    int colour = at_border(top, left);
    int uniform = 1;
    for (int column = left; column <= right; column++) {
        uniform &= at_border(top, column) == colour;
        uniform &= at_border(bottom, column) == colour;
    }
    for (int row = top; row <= bottom; row++) {
        uniform &= at_border(row, left) == colour;
        uniform &= at_border(row, right) == colour;
    }
    if (bottom - top < 2 || right - left < 2) {
        return;
    }
    if (uniform) {
        for (int row = top + 1; row < bottom; row++) {
            for (int column = left + 1; column < right; column++) {
                border_map[row][column] = (uint16_t)colour;
            }
        }
    } else if (bottom - top > right - left) {
        int middle = (top + bottom) / 2;
        subdivide(top, left, middle, right);
        subdivide(middle, left, bottom, right);
    } else {
        int middle = (left + right) / 2;
        subdivide(top, left, bottom, middle);
        subdivide(top, middle, bottom, right);
    }
}

static uint32_t checksum(uint16_t map[ROWS][COLUMNS]) {
    uint32_t sum = 0;
    for (int row = 0; row < ROWS; row++) {
        for (int column = 0; column < COLUMNS; column++) {
            sum = sum * 37u + map[row][column];
        }
    }
    return sum;
}

static void draw(uint16_t map[ROWS][COLUMNS]) {
    static const char shades[] = " .:-=+*#%@";
    for (int row = 0; row < ROWS; row += 8) {
        char line[COLUMNS / 4 + 1];
        int length = 0;
        for (int column = 0; column < COLUMNS; column += 4) {
            int count = map[row][column];
            int shade = 0;
            while (count > 1 && shade < 9) {
                count /= 2;
                shade++;
            }
            line[length++] = shades[shade];
        }
        line[length] = '\0';
        printf("|%s|\n", line);
    }
}

int main(void) {
    int apart = 0;
    for (int row = 0; row < ROWS; row++) {
        for (int column = 0; column < COLUMNS; column++) {
            double x = real_part(column), y = imaginary_part(row);
            double unit = (double)((int64_t)1 << FRACTION_BITS);
            float_map[row][column] = (uint16_t)in_float(x, y);
            fixed_map[row][column] = (uint16_t)in_fixed((int64_t)(x * unit), (int64_t)(y * unit));
            int gap = float_map[row][column] - fixed_map[row][column];
            apart += gap < -1 || gap > 1;
        }
    }
    memset(border_map, 0xff, sizeof border_map);
    subdivide(0, 0, ROWS - 1, COLUMNS - 1);
    printf("float %08x fixed %08x border %08x\n", (unsigned)checksum(float_map),
        (unsigned)checksum(fixed_map),
           (unsigned)checksum(border_map));
    printf("far apart %d, evaluated %d of %d\n", apart, evaluated, ROWS * COLUMNS);
    draw(float_map);
    return 0;
}
