// SPDX-License-Identifier: MIT
// Work on single bits: counting, reversing, interleaving, Gray codes, a sieve, and queens on a
// board.

#include <stdint.h>
#include <stdio.h>

enum { SIEVE = 100000, BOARD = 9 };

static unsigned count_by_loop(uint64_t x) {
    unsigned count = 0;
    for (; x; x &= x - 1) {
        count++;
    }
    return count;
}

static unsigned count_by_halves(uint64_t x) {
    x -= (x >> 1) & 0x5555555555555555u;
    x = (x & 0x3333333333333333u) + ((x >> 2) & 0x3333333333333333u);
    x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return (unsigned)((x * 0x0101010101010101u) >> 56);
}

static uint64_t reversed(uint64_t x) {
    static const uint64_t masks[] = {0x5555555555555555u, 0x3333333333333333u, 0x0f0f0f0f0f0f0f0fu,
                                     0x00ff00ff00ff00ffu, 0x0000ffff0000ffffu, 0x00000000ffffffffu};
    for (unsigned step = 0; step < 6; step++) {
        unsigned by = 1u << step;
        x = ((x >> by) & masks[step]) | ((x & masks[step]) << by);
    }
    return x;
}

static uint64_t spread(uint32_t x) {
    uint64_t y = x;
    y = (y | y << 16) & 0x0000ffff0000ffffu;
    y = (y | y << 8) & 0x00ff00ff00ff00ffu;
    y = (y | y << 4) & 0x0f0f0f0f0f0f0f0fu;
    y = (y | y << 2) & 0x3333333333333333u;
    return (y | y << 1) & 0x5555555555555555u;
}

static uint64_t interleaved(uint32_t x, uint32_t y) {
    return spread(x) | spread(y) << 1;
}

static uint32_t from_gray(uint32_t code) {
    for (unsigned by = 1; by < 32; by *= 2) {
        code ^= code >> by;
    }
    return code;
}

static unsigned log2_floor(uint32_t x) {
    unsigned result = 0;
    for (unsigned by = 16; by > 0; by /= 2) {
        if (x >> by) {
            x >>= by;
            result += by;
        }
    }
    return result;
}

static uint32_t next_of_same_count(uint32_t x) {
    uint32_t lowest = x & (0u - x);
    uint32_t ripple = x + lowest;
    return ripple | ((x ^ ripple) >> 2) / lowest;
}

static unsigned primes_below_limit(void) {
    static uint32_t composite[SIEVE / 32 + 1];
    unsigned count = 0;
    for (uint32_t n = 2; n < SIEVE; n++) {
        if (composite[n / 32] >> (n % 32) & 1) {
            continue;
        }
        count++;
        for (uint32_t multiple = 2 * n; multiple < SIEVE; multiple += n) {
            composite[multiple / 32] |= 1u << (multiple % 32);
        }
    }
    return count;
}

static unsigned queens(uint32_t columns, uint32_t rising, uint32_t falling) {
    const uint32_t all = (1u << BOARD) - 1;
    if (columns == all) {
        return 1;
    }
    unsigned ways = 0;
    for (uint32_t open = all & ~(columns | rising | falling); open; open &= open - 1) {
        uint32_t place = open & (0u - open);
        ways += queens(columns | place, (rising | place) << 1, (falling | place) >> 1);
    }
    return ways;
}

int main(void) {
    uint64_t x = 0x9e3779b97f4a7c15u;
    uint64_t mixed = 0;
    unsigned wrong = 0, ones = 0;
    for (uint32_t i = 0; i < 40000; i++) {
        x ^= x << 7;
        x ^= x >> 9;
        uint32_t low = (uint32_t)x;
        wrong += count_by_loop(x) != count_by_halves(x);
        wrong += reversed(reversed(x)) != x;
        wrong += from_gray(low ^ low >> 1) != low;
        ones += count_by_halves(x);
        mixed = mixed * 3u + (interleaved(low, (uint32_t)(x >> 32)) ^ reversed(x))
            + log2_floor(low | 1);
    }
    printf("wrong %u, ones %u, mixed %016llx\n", wrong, ones, (unsigned long long)mixed);
    unsigned subsets = 0;
    for (uint32_t set = 0x1f; set < 1u << 16; set = next_of_same_count(set)) {
        subsets++;
    }
    printf("subsets %u, primes %u, queens %u\n", subsets, primes_below_limit(), queens(0, 0, 0));
    return 0;
}
