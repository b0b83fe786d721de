// SPDX-License-Identifier: MIT
// Unicode text: encoding to and checked decoding from UTF-8, UTF-16 pairs, and a scanner that
// repairs damage.

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { POINTS = 8000, REPLACEMENT = 0xfffd, BAD = -1 };

static uint32_t points[POINTS];
static uint8_t bytes[4 * POINTS + 4];
static uint16_t units[2 * POINTS];

static size_t encode(uint32_t point, uint8_t *out) {
    if (point < 0x80) {
        out[0] = (uint8_t)point;
        return 1;
    }
    if (point < 0x800) {
        out[0] = (uint8_t)(0xc0 | point >> 6);
        out[1] = (uint8_t)(0x80 | (point & 0x3f));
        return 2;
    }
    if (point < 0x10000) {
        out[0] = (uint8_t)(0xe0 | point >> 12);
        out[1] = (uint8_t)(0x80 | (point >> 6 & 0x3f));
        out[2] = (uint8_t)(0x80 | (point & 0x3f));
        return 3;
    }
    out[0] = (uint8_t)(0xf0 | point >> 18);
    out[1] = (uint8_t)(0x80 | (point >> 12 & 0x3f));
    out[2] = (uint8_t)(0x80 | (point >> 6 & 0x3f));
    out[3] = (uint8_t)(0x80 | (point & 0x3f));
    return 4;
}

static int sequence_length(uint8_t lead) {
    if (lead < 0x80) return 1;
    if (lead >= 0xc2 && lead < 0xe0) return 2;
    if (lead >= 0xe0 && lead < 0xf0) return 3;
    if (lead >= 0xf0 && lead < 0xf5) return 4;
    return 0;
}

// The code point at `*at`, or BAD with `*at` moved past what can be no part of the next one.
static int32_t decode(const uint8_t *text, size_t size, size_t *at) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint8_t lead = text[(*at)++];
    int length = sequence_length(lead);
    if (length <= 1) {
        return length == 1 ? lead : BAD;
    }
    uint32_t point = lead & (0x7fu >> length);
    for (int i = 1; i < length; i++) {
        if (*at >= size || (text[*at] & 0xc0) != 0x80) {
            return BAD;
        }
        point = point << 6 | (text[(*at)++] & 0x3f);
    }
    if (point < least[length] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) {
        return BAD;
    }
    return (int32_t)point;
}

static size_t to_pairs(size_t count) {
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        if (points[i] < 0x10000) {
            units[used++] = (uint16_t)points[i];
        } else {
            uint32_t rest = points[i] - 0x10000;
            units[used++] = (uint16_t)(0xd800 | rest >> 10);
            units[used++] = (uint16_t)(0xdc00 | (rest & 0x3ff));
        }
    }
    return used;
}

static uint32_t from_pairs(size_t used, size_t *differing) {
    uint32_t sum = 0;
    size_t place = 0;
    *differing = 0;
    for (size_t i = 0; i < used; i++) {
        uint32_t point = units[i];
        if ((point & 0xfc00) == 0xd800 && i + 1 < used) {
            point = 0x10000 + ((point & 0x3ff) << 10 | (units[++i] & 0x3ff));
        }
        *differing += point != points[place++];
        sum = sum * 31u + point;
    }
    return sum;
}

static uint32_t draw(uint32_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed;
}

static uint32_t random_point(uint32_t *seed) {
    static const uint32_t planes[] = {0x7f, 0x7ff, 0xffff, 0x10ffff};
    uint32_t point = draw(seed);
    point %= planes[draw(seed) % 4];
    return point >= 0xd800 && point < 0xe000 ? point - 0x800 : point;
}

int main(void) {
    uint32_t seed = 88172645u;
    size_t size = 0;
    for (size_t i = 0; i < POINTS; i++) {
        points[i] = random_point(&seed);
        size += encode(points[i], bytes + size);
    }
    size_t differing = 0, at = 0;
    for (size_t i = 0; at < size; i++) {
        differing += decode(bytes, size, &at) != (int32_t)points[i];
    }
    size_t used = to_pairs(POINTS);
    size_t pair_differing;
    uint32_t sum = from_pairs(used, &pair_differing);
    printf("%zu bytes, %zu units, differing %zu %zu, sum %08x\n", size, used, differing,
        pair_differing, (unsigned)sum);
    for (unsigned every = 50; every >= 2; every /= 2) {
        for (size_t i = 0; i < size; i += every) {
            bytes[i] = (uint8_t)(bytes[i] ^ (1u << (draw(&seed) % 8)));
        }
        unsigned damaged = 0;
        uint32_t repaired = 0;
        for (at = 0; at < size;) {
            int32_t point = decode(bytes, size, &at);
            damaged += point == BAD;
            repaired = repaired * 31u + (uint32_t)(point == BAD ? REPLACEMENT : point);
        }
        printf("a flip every %u bytes: %u damaged, sum %08x\n", every, damaged, (unsigned)repaired);
    }
    return 0;
}
