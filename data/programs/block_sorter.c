// SPDX-License-Identifier: MIT
// Block-sorting compression: rotate and sort, move to front, run lengths; and each of them undone.

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK = 6000 };

static uint8_t text[BLOCK], sorted_column[BLOCK], fronted[BLOCK], runs[2 * BLOCK], back[BLOCK];
static int rotation[BLOCK], rank_of[2 * BLOCK], next_rank[BLOCK], buckets[BLOCK + 257],
    scratch[BLOCK];

static void counting_pass(const int *from, int *to, int shift, int key_max) {
    memset(buckets, 0, sizeof buckets);
    for (int i = 0; i < BLOCK; i++) {
        buckets[rank_of[(from[i] + shift) % BLOCK] + 1]++;
    }
    for (int key = 0; key < key_max; key++) {
        buckets[key + 1] += buckets[key];
    }
    for (int i = 0; i < BLOCK; i++) {
        to[buckets[rank_of[(from[i] + shift) % BLOCK]]++] = from[i];
    }
}

// Ranks by doubled prefixes: after the pass of width w, rotations are sorted by their first 2w
// bytes.
static void sort_rotations(void) {
    int ranks = 256;
    for (int i = 0; i < BLOCK; i++) {
        rotation[i] = i;
        rank_of[i] = text[i];
    }
    for (int width = 1; width < 2 * BLOCK; width *= 2) {
        counting_pass(rotation, scratch, width % BLOCK, ranks);
        counting_pass(scratch, rotation, 0, ranks);
        int rank = 0;
        for (int i = 0; i < BLOCK; i++) {
            int here = rotation[i];
            int before = rotation[i > 0 ? i - 1 : 0];
            int same = rank_of[here] == rank_of[before] &&
                       rank_of[(here + width) % BLOCK] == rank_of[(before + width) % BLOCK];
            rank += i > 0 && !same;
            next_rank[here] = rank;
        }
        memcpy(rank_of, next_rank, sizeof next_rank);
        ranks = rank + 1;
        if (ranks == BLOCK) {
            return;
        }
    }
}

static int transform(void) {
    int primary = 0;
    sort_rotations();
    for (int i = 0; i < BLOCK; i++) {
        sorted_column[i] = text[(rotation[i] + BLOCK - 1) % BLOCK];
        if (rotation[i] == 0) {
            primary = i;
        }
    }
    return primary;
}

static void start_alphabet(uint8_t *alphabet) {
    for (int i = 0; i < 256; i++) {
        alphabet[i] = (uint8_t)i;
    }
}

static void bring_forward(uint8_t *alphabet, int place) {
    uint8_t symbol = alphabet[place];
    memmove(alphabet + 1, alphabet, (size_t)place);
    alphabet[0] = symbol;
}

static void move_to_front(void) {
    uint8_t alphabet[256];
    start_alphabet(alphabet);
    for (int i = 0; i < BLOCK; i++) {
        int place = 0;
        while (alphabet[place] != sorted_column[i]) {
            place++;
        }
        fronted[i] = (uint8_t)place;
        bring_forward(alphabet, place);
    }
}

static int write_runs(void) {
    int out = 0;
    for (int i = 0; i < BLOCK;) {
        int length = 1;
        while (i + length < BLOCK && length < 255 && fronted[i + length] == fronted[i]) {
            length++;
        }
        runs[out++] = fronted[i];
        runs[out++] = (uint8_t)length;
        i += length;
    }
    return out;
}

static void undo(int size, int primary) {
    uint8_t alphabet[256];
    int count = 0;
    int starts[257] = {0};
    start_alphabet(alphabet);
    for (int at = 0; at < size; at += 2) {
        for (int i = 0; i < runs[at + 1]; i++) {
            sorted_column[count++] = alphabet[runs[at]];
            bring_forward(alphabet, runs[at]);
        }
    }
    for (int i = 0; i < BLOCK; i++) {
        starts[sorted_column[i] + 1]++;
    }
    for (int symbol = 0; symbol < 256; symbol++) {
        starts[symbol + 1] += starts[symbol];
    }
    for (int i = 0; i < BLOCK; i++) {
        scratch[starts[sorted_column[i]]++] = i;
    }
    int at = scratch[primary];
    for (int i = 0; i < BLOCK; i++, at = scratch[at]) {
        back[i] = sorted_column[at];
    }
}

int main(void) {
    for (unsigned kind = 1; kind <= 3; kind++) {
        uint32_t seed = kind;
        for (int i = 0; i < BLOCK; i++) {
            seed = seed * 1664525u + 1013904223u;
            int copied = i > 8 && (seed >> 16) % 8 > kind;
            text[i] = (uint8_t)(copied ? text[i - 7] : 'a' + (seed >> 24) % (4 * kind));
        }
        int primary = transform();
        move_to_front();
        int size = write_runs();
        uint32_t sum = 0;
        for (int i = 0; i < size; i++) {
            sum = sum * 257u + runs[i];
        }
        undo(size, primary);
        printf("kind %u: row %d, %d bytes of runs, sum %08x, %s\n", kind, primary, size,
            (unsigned)sum,
               memcmp(text, back, BLOCK) == 0 ? "restored" : "damaged");
    }
    return 0;
}
