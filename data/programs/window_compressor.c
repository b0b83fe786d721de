// SPDX-License-Identifier: MIT
// Compression by copies from a sliding window: hash chains, lazy matching, and the way back.

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { INPUT = 40000, WINDOW = 4096, MATCH_MIN = 4, MATCH_MAX = 130, HASH_BITS = 12,
    CHAIN_MAX = 32 };

static uint8_t input[INPUT], packed[2 * INPUT], unpacked[INPUT];
static int newest[1 << HASH_BITS], older[WINDOW];

struct match {
    int length, offset;
};

static unsigned hash_at(int at) {
    uint32_t word = (uint32_t)input[at] | (uint32_t)input[at + 1] << 8 | (uint32_t)input[at
        + 2] << 16 |
                    (uint32_t)input[at + 3] << 24;
    return (word * 2654435761u) >> (32 - HASH_BITS);
}

static void remember(int at, int end) {
    if (at + MATCH_MIN <= end) {
        unsigned hash = hash_at(at);
        older[at % WINDOW] = newest[hash];
        newest[hash] = at;
    }
}

static int common_length(int a, int b, int end) {
    int length = 0;
    while (b + length < end && length < MATCH_MAX && input[a + length] == input[b + length]) {
        length++;
    }
    return length;
}

static struct match longest(int at, int end) {
    struct match best = {0, 0};
    if (at + MATCH_MIN > end) {
        return best;
    }
    int candidate = newest[hash_at(at)];
    for (int tries = 0; tries < CHAIN_MAX && candidate >= 0 && at - candidate < WINDOW; tries++) {
        int length = common_length(candidate, at, end);
        if (length > best.length) {
            best = (struct match){length, at - candidate};
        }
        candidate = older[candidate % WINDOW];
    }
    return best;
}

static uint8_t *flush_literals(uint8_t *out, int from, int to) {
    while (from < to) {
        int count = to - from < 128 ? to - from : 128;
        *out++ = (uint8_t)(count - 1);
        memcpy(out, input + from, (size_t)count);
        out += count;
        from += count;
    }
    return out;
}

static int compress(int end) {
    uint8_t *out = packed;
    int literal = 0;
    memset(newest, -1, sizeof newest);
    for (int at = 0; at < end;) {
        struct match here = longest(at, end);
        remember(at, end);
        if (here.length >= MATCH_MIN) {
            struct match next = longest(at + 1, end);
            if (next.length > here.length + 1) {
                at++;
                continue;
            }
            out = flush_literals(out, literal, at);
            *out++ = (uint8_t)(0x80 | (here.length - MATCH_MIN));
            *out++ = (uint8_t)(here.offset & 0xff);
            *out++ = (uint8_t)(here.offset >> 8);
            for (int i = 1; i < here.length; i++) {
                remember(at + i, end);
            }
            at += here.length;
            literal = at;
        } else {
            at++;
        }
    }
    out = flush_literals(out, literal, end);
    return (int)(out - packed);
}

static int decompress(int size) {
    int out = 0;
    for (int at = 0; at < size;) {
        int token = packed[at++];
        if (token & 0x80) {
            int length = (token & 0x7f) + MATCH_MIN;
            int offset = packed[at] | packed[at + 1] << 8;
            at += 2;
            for (int i = 0; i < length; i++, out++) {
                unpacked[out] = unpacked[out - offset];
            }
        } else {
            memcpy(unpacked + out, packed + at, (size_t)token + 1);
            at += token + 1;
            out += token + 1;
        }
    }
    return out;
}

static void generate(int kind, uint32_t seed) {
    static const char *const words[] = {"state ", "step ", "pass ", "of ", "the ", "loop ",
        "value ", "and "};
    for (int at = 0; at < INPUT;) {
        seed = seed * 1664525u + 1013904223u;
        if (kind == 0) {
            input[at++] = (uint8_t)(seed >> 24);
        } else if (kind == 1) {
            for (const char *c = words[seed >> 29]; *c && at < INPUT; c++) {
                input[at++] = (uint8_t)*c;
            }
        } else {
            input[at] = (uint8_t)(at / 97 + (seed >> 31));
            at++;
        }
    }
}

int main(void) {
    for (int kind = 0; kind < 3; kind++) {
        generate(kind, 5);
        int size = compress(INPUT);
        int back = decompress(size);
        uint32_t sum = 0;
        for (int i = 0; i < size; i++) {
            sum = sum * 31u + packed[i];
        }
        printf("kind %d: %d -> %d bytes, sum %08x, %s\n", kind, INPUT, size, (unsigned)sum,
               back == INPUT && memcmp(input, unpacked, INPUT) == 0 ? "restored" : "damaged");
    }
    return 0;
}
