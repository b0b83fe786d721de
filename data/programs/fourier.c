// SPDX-License-Identifier: MIT
// Fourier transforms in place: the fast one by halves, the plain sum, convolution, and one over a
// finite field.

#include <stdint.h>
#include <stdio.h>

enum { LENGTH = 1024, FIELD = 12289, FIELD_ROOT = 11 };

struct complex_number {
    double re, im;
};

static struct complex_number signal[LENGTH], spectrum[LENGTH], turns[LENGTH];

static struct complex_number times(struct complex_number a, struct complex_number b) {
    return (struct complex_number){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

// Sine by its series after folding to a quarter turn: no library, so no rounding that differs by
// build.
static double sine(double turn) {
    const double full = 6.283185307179586;
    turn -= (double)(long)turn;
    double sign = turn >= 0.5 ? -1 : 1;
    turn = turn >= 0.5 ? turn - 0.5 : turn;
    turn = turn > 0.25 ? 0.5 - turn : turn;
    double x = turn * full;
    double term = x;
    double sum = x;
    for (int k = 1; k < 12; k++) {
        term *= -x * x / ((2 * k) * (2 * k + 1));
        sum += term;
    }
    return sign * sum;
}

static void fill_turns(void) {
    for (int i = 0; i < LENGTH; i++) {
        double turn = (double)i / LENGTH;
        turns[i] = (struct complex_number){sine(turn + 0.25), -sine(turn)};
    }
}

static unsigned reversed(unsigned index, unsigned length) {
    unsigned result = 0;
    for (unsigned bit = 1; bit < length; bit <<= 1) {
        result = result << 1 | (index & 1);
        index >>= 1;
    }
    return result;
}

static void transform(struct complex_number *a, int inverse) {
    for (unsigned i = 0; i < LENGTH; i++) {
        unsigned j = reversed(i, LENGTH);
        if (i < j) {
            struct complex_number held = a[i];
            a[i] = a[j];
            a[j] = held;
        }
    }
    for (int half = 1; half < LENGTH; half *= 2) {
        for (int start = 0; start < LENGTH; start += 2 * half) {
            for (int i = 0; i < half; i++) {
                struct complex_number turn = turns[i * (LENGTH / 2 / half)];
                turn.im = inverse ? -turn.im : turn.im;
                struct complex_number low = a[start + i];
                struct complex_number high = times(turn, a[start + half + i]);
                a[start + i] = (struct complex_number){low.re + high.re, low.im + high.im};
                a[start + half + i] = (struct complex_number){low.re - high.re, low.im - high.im};
            }
        }
    }
}

static struct complex_number plain_sum(const struct complex_number *a, int frequency) {
    struct complex_number sum = {0, 0};
    for (int i = 0; i < LENGTH; i++) {
        struct complex_number part = times(a[i], turns[(i * frequency) % LENGTH]);
        sum.re += part.re;
        sum.im += part.im;
    }
    return sum;
}

static uint32_t power(uint32_t base, uint32_t exponent) {
    uint32_t result = 1;
    for (; exponent > 0; exponent >>= 1, base = base * base % FIELD) {
        if (exponent & 1) {
            result = result * base % FIELD;
        }
    }
    return result;
}

static void field_transform(uint32_t *a, uint32_t length, uint32_t root) {
    for (uint32_t i = 0; i < length; i++) {
        uint32_t j = reversed(i, length);
        if (i < j) {
            uint32_t held = a[i];
            a[i] = a[j];
            a[j] = held;
        }
    }
    for (uint32_t half = 1; half < length; half *= 2) {
        uint32_t step = power(root, length / (2 * half));
        for (uint32_t start = 0; start < length; start += 2 * half) {
            uint32_t turn = 1;
            for (uint32_t i = start; i < start + half; i++, turn = turn * step % FIELD) {
                uint32_t high = a[i + half] * turn % FIELD;
                a[i + half] = (a[i] + FIELD - high) % FIELD;
                a[i] = (a[i] + high) % FIELD;
            }
        }
    }
}

static uint32_t convolve(uint32_t length) {
    uint32_t a[LENGTH], b[LENGTH];
    uint32_t root = power(FIELD_ROOT, (FIELD - 1) / length);
    for (uint32_t i = 0; i < length; i++) {
        a[i] = (i * i + 5) % FIELD;
        b[i] = (3 * i + 1) % FIELD;
    }
    field_transform(a, length, root);
    field_transform(b, length, root);
    for (uint32_t i = 0; i < length; i++) {
        a[i] = a[i] * b[i] % FIELD;
    }
    field_transform(a, length, power(root, FIELD - 2));
    uint32_t scale = power(length, FIELD - 2);
    uint32_t sum = 0;
    for (uint32_t i = 0; i < length; i++) {
        sum = sum * 31u + a[i] * scale % FIELD;
    }
    return sum;
}

int main(void) {
    fill_turns();
    for (int i = 0; i < LENGTH; i++) {
        signal[i].re = 3 * sine((double)i * 50 / LENGTH) + sine((double)i * 120 / LENGTH)
            + (i % 5 - 2) * 0.1;
        spectrum[i] = signal[i];
    }
    transform(spectrum, 0);
    double worst = 0;
    for (int frequency = 0; frequency < LENGTH; frequency += 31) {
        struct complex_number direct = plain_sum(signal, frequency);
        double re = direct.re - spectrum[frequency].re;
        double im = direct.im - spectrum[frequency].im;
        worst = re * re + im * im > worst ? re * re + im * im : worst;
    }
    printf("peaks %.4f %.4f, %s\n", -spectrum[50].im, -spectrum[120].im,
        worst < 1e-16 ? "agrees" : "differs");
    transform(spectrum, 1);
    double error = 0;
    for (int i = 0; i < LENGTH; i++) {
        double gap = spectrum[i].re / LENGTH - signal[i].re;
        error += gap * gap;
    }
    printf("way back: %s\n", error < 1e-20 ? "restored" : "damaged");
    for (uint32_t length = 64; length <= LENGTH; length *= 2) {
        printf("convolution of %u: %08x\n", (unsigned)length, (unsigned)convolve(length));
    }
    return 0;
}
