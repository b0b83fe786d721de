// SPDX-License-Identifier: MIT
// Canonical Huffman codes: lengths from a tree of counts, packing to bits, and decoding by code
// length.

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { SYMBOLS = 256, INPUT = 30000, LENGTH_MAX = 32 };

static uint8_t input[INPUT], output[INPUT], bits[INPUT * 4];

struct code {
    uint8_t length[SYMBOLS];
    uint32_t word[SYMBOLS];
    int first_index[LENGTH_MAX + 2];
    uint32_t first_word[LENGTH_MAX + 2];
    int sorted[SYMBOLS];
};

struct tree {
    uint32_t weight[2 * SYMBOLS];
    int parent[2 * SYMBOLS];
    int alive[2 * SYMBOLS];
    int used;
};

static int lightest(struct tree *t) {
    int best = -1;
    for (int node = 0; node < t->used; node++) {
        if (t->alive[node] && (best < 0 || t->weight[node] < t->weight[best])) {
            best = node;
        }
    }
    t->alive[best] = 0;
    return best;
}

static void code_lengths(const uint32_t *counts, struct code *c) {
    struct tree t = {.used = SYMBOLS};
    int live = 0;
    for (int s = 0; s < SYMBOLS; s++) {
        t.weight[s] = counts[s];
        t.alive[s] = counts[s] > 0;
        t.parent[s] = -1;
        live += t.alive[s];
    }
    for (; live > 1; live--) {
        int a = lightest(&t);
        int b = lightest(&t);
        t.weight[t.used] = t.weight[a] + t.weight[b];
        t.alive[t.used] = 1;
        t.parent[t.used] = -1;
        t.parent[a] = t.parent[b] = t.used++;
    }
    for (int s = 0; s < SYMBOLS; s++) {
        int length = 0;
        for (int node = s; t.parent[node] >= 0; node = t.parent[node]) {
            length++;
        }
        c->length[s] = (uint8_t)(counts[s] > 0 && length == 0 ? 1 : length);
    }
}

static void assign_words(struct code *c) {
    uint32_t word = 0;
    int index = 0;
    for (int length = 1; length <= LENGTH_MAX; length++) {
        word <<= 1;
        c->first_word[length] = word;
        c->first_index[length] = index;
        for (int s = 0; s < SYMBOLS; s++) {
            if (c->length[s] == length) {
                c->word[s] = word++;
                c->sorted[index++] = s;
            }
        }
    }
    c->first_index[LENGTH_MAX + 1] = index;
}

static long encode(const struct code *c) {
    long at = 0;
    memset(bits, 0, sizeof bits);
    for (int i = 0; i < INPUT; i++) {
        int length = c->length[input[i]];
        for (int b = length - 1; b >= 0; b--, at++) {
            if (c->word[input[i]] >> b & 1) {
                bits[at / 8] |= (uint8_t)(1 << (7 - at % 8));
            }
        }
    }
    return at;
}

static int decode_one(const struct code *c, long *at) {
    uint32_t word = 0;
    for (int length = 1; length <= LENGTH_MAX; length++) {
        word = word << 1 | (bits[*at / 8] >> (7 - *at % 8) & 1);
        ++*at;
        uint32_t place = word - c->first_word[length];
        int here = c->first_index[length + 1] - c->first_index[length];
        if (word >= c->first_word[length] && place < (uint32_t)here) {
            return c->sorted[c->first_index[length] + (int)place];
        }
    }
    return -1;
}

int main(void) {
    for (int skew = 1; skew <= 5; skew++) {
        static struct code c;
        uint32_t counts[SYMBOLS] = {0};
        uint32_t seed = (uint32_t)skew;
        memset(&c, 0, sizeof c);
        for (int i = 0; i < INPUT; i++) {
            uint32_t value = 255;
            for (int draw = 0; draw < skew; draw++) {
                seed = seed * 1103515245u + 12345u;
                uint32_t drawn = seed >> 24;
                value = drawn < value ? drawn : value;
            }
            input[i] = (uint8_t)value;
            counts[value]++;
        }
        code_lengths(counts, &c);
        assign_words(&c);
        long length = encode(&c);
        long at = 0;
        for (int i = 0; i < INPUT; i++) {
            output[i] = (uint8_t)decode_one(&c, &at);
        }
        uint32_t sum = 0;
        for (long i = 0; i <= length / 8; i++) {
            sum = (sum << 5 | sum >> 27) ^ bits[i];
        }
        printf("skew %d: %ld bits, sum %08x, %s\n", skew, length, (unsigned)sum,
               at == length && memcmp(input, output, INPUT) == 0 ? "restored" : "damaged");
    }
    return 0;
}
