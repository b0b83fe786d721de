// SPDX-License-Identifier: MIT
// Random numbers and what is done with them: areas, shuffles, walks, sampling by weight, a test of
// evenness.

#include <stdint.h>
#include <stdio.h>

enum { DRAWS = 60000, CARDS = 52, SITES = 64, BINS = 16, WEIGHTS = 7 };

struct generator {
    uint64_t state;
    uint64_t increment;
};

static uint32_t next_word(struct generator *g) {
    uint64_t old = g->state;
    g->state = old * 6364136223846793005u + g->increment;
    uint32_t mixed = (uint32_t)((old >> 18 ^ old) >> 27);
    unsigned turn = (unsigned)(old >> 59);
    return mixed >> turn | mixed << (-turn & 31);
}

static uint32_t below(struct generator *g, uint32_t bound) {
    uint32_t threshold = -bound % bound;
    for (;;) {
        uint32_t word = next_word(g);
        if (word >= threshold) {
            return word % bound;
        }
    }
}

static uint32_t quarter_circle(struct generator *g) {
    uint32_t inside = 0;
    for (int i = 0; i < DRAWS; i++) {
        uint64_t x = next_word(g) >> 8;
        uint64_t y = next_word(g) >> 8;
        inside += x * x + y * y < (uint64_t)1 << 48;
    }
    return inside;
}

static void shuffle(struct generator *g, int *cards) {
    for (int i = 0; i < CARDS; i++) {
        cards[i] = i;
    }
    for (int i = CARDS - 1; i > 0; i--) {
        int j = (int)below(g, (uint32_t)i + 1);
        int held = cards[i];
        cards[i] = cards[j];
        cards[j] = held;
    }
}

static int fixed_points(struct generator *g, int rounds) {
    int cards[CARDS];
    int fixed = 0;
    for (int round = 0; round < rounds; round++) {
        shuffle(g, cards);
        for (int i = 0; i < CARDS; i++) {
            fixed += cards[i] == i;
        }
    }
    return fixed;
}

static int steps_to_cover(struct generator *g) {
    uint64_t seen = 1;
    int at = 0, steps = 0;
    while (seen != ~(uint64_t)0) {
        at = (at + (next_word(g) & 0x80 ? 1 : SITES - 1)) % SITES;
        seen |= (uint64_t)1 << at;
        steps++;
    }
    return steps;
}

static uint32_t evenness(struct generator *g) {
    uint32_t bins[BINS] = {0};
    uint32_t squares = 0;
    for (int i = 0; i < DRAWS; i++) {
        bins[next_word(g) >> 28]++;
    }
    for (int i = 0; i < BINS; i++) {
        int32_t gap = (int32_t)bins[i] - DRAWS / BINS;
        squares += (uint32_t)(gap * gap);
    }
    return squares / (DRAWS / BINS);
}

struct alias {
    uint32_t cut[WEIGHTS];
    int other[WEIGHTS];
};

// Walker's way: each of the equal columns holds at most two outcomes.
static void build_alias(struct alias *a, const uint32_t *weights, uint32_t total) {
    uint32_t left[WEIGHTS];
    for (int i = 0; i < WEIGHTS; i++) {
        left[i] = weights[i] * WEIGHTS;
        a->cut[i] = total;
        a->other[i] = i;
    }
    for (int done = 0; done < WEIGHTS; done++) {
        int small = -1, large = -1;
        for (int i = 0; i < WEIGHTS; i++) {
            if (left[i] < total && a->cut[i] == total && small < 0) small = i;
            if (left[i] > total && large < 0) large = i;
        }
        if (small < 0 || large < 0) {
            return;
        }
        a->cut[small] = left[small];
        a->other[small] = large;
        left[large] -= total - left[small];
        left[small] = total;
    }
}

static void sample_by_weight(struct generator *g) {
    static const uint32_t weights[WEIGHTS] = {1, 2, 4, 8, 16, 32, 37};
    struct alias a;
    unsigned counts[WEIGHTS] = {0};
    build_alias(&a, weights, 100);
    for (int i = 0; i < DRAWS; i++) {
        int column = (int)below(g, WEIGHTS);
        counts[below(g, 100) < a.cut[column] ? column : a.other[column]]++;
    }
    for (int i = 0; i < WEIGHTS; i++) {
        printf("weight %u: %u\n", (unsigned)weights[i], counts[i]);
    }
}

int main(void) {
    for (uint64_t stream = 1; stream <= 3; stream++) {
        struct generator g = {42 * stream, 2 * stream + 1};
        // Each draws from what the one before has left.
        uint32_t inside = quarter_circle(&g);
        int fixed = fixed_points(&g, 500);
        int cover = steps_to_cover(&g);
        uint32_t uneven = evenness(&g);
        printf("stream %u: inside %u, fixed %d, cover %d, evenness %u\n", (unsigned)stream,
               (unsigned)inside, fixed, cover, (unsigned)uneven);
    }
    struct generator g = {7, 11};
    sample_by_weight(&g);
    return 0;
}
