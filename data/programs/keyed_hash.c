// SPDX-License-Identifier: MIT
// Hash functions over byte strings: one keyed by rounds of add, rotate and xor, one
// multiplicative, one by table.

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { MESSAGE = 512, BUCKETS = 64 };

struct sponge {
    uint64_t lane[4];
};

static uint64_t rotate(uint64_t word, unsigned by) {
    return (word << by) | (word >> (64 - by));
}

static void stir(struct sponge *s) {
    s->lane[0] += s->lane[1];
    s->lane[2] += s->lane[3];
    s->lane[1] = rotate(s->lane[1], 13) ^ s->lane[0];
    s->lane[3] = rotate(s->lane[3], 16) ^ s->lane[2];
    s->lane[0] = rotate(s->lane[0], 32);
    s->lane[2] += s->lane[1];
    s->lane[0] += s->lane[3];
    s->lane[1] = rotate(s->lane[1], 17) ^ s->lane[2];
    s->lane[3] = rotate(s->lane[3], 21) ^ s->lane[0];
    s->lane[2] = rotate(s->lane[2], 32);
}

static uint64_t read_word(const uint8_t *bytes, size_t count) {
    uint64_t word = 0;
    for (size_t i = 0; i < count; i++) {
        word |= (uint64_t)bytes[i] << (8 * i);
    }
    return word;
}

static uint64_t sponge_hash(uint64_t key0, uint64_t key1, const uint8_t *bytes, size_t length) {
    struct sponge s = {{key0 ^ 0x243f6a8885a308d3u, key1 ^ 0x13198a2e03707344u,
                        key0 ^ 0xa4093822299f31d0u, key1 ^ 0x082efa98ec4e6c89u}};
    size_t at = 0;
    for (; at + 8 <= length; at += 8) {
        uint64_t word = read_word(bytes + at, 8);
        s.lane[3] ^= word;
        stir(&s);
        stir(&s);
        s.lane[0] ^= word;
    }
    uint64_t last = ((uint64_t)length << 56) | read_word(bytes + at, length - at);
    s.lane[3] ^= last;
    stir(&s);
    stir(&s);
    s.lane[0] ^= last;
    s.lane[2] ^= 0xff;
    for (int round = 0; round < 4; round++) {
        stir(&s);
    }
    return s.lane[0] ^ s.lane[1] ^ s.lane[2] ^ s.lane[3];
}

static uint64_t product_hash(const uint8_t *bytes, size_t length) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < length; i++) {
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    }
    return hash;
}

static uint32_t crc_table[256];

static void fill_crc_table(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ (crc & 1 ? 0xedb88320u : 0);
        }
        crc_table[byte] = crc;
    }
}

static uint32_t crc(const uint8_t *bytes, size_t length) {
    uint32_t state = 0xffffffffu;
    for (size_t i = 0; i < length; i++) {
        state = (state >> 8) ^ crc_table[(state ^ bytes[i]) & 0xff];
    }
    return ~state;
}

static unsigned spread(const unsigned *buckets) {
    unsigned most = 0;
    unsigned least = ~0u;
    for (int i = 0; i < BUCKETS; i++) {
        most = buckets[i] > most ? buckets[i] : most;
        least = buckets[i] < least ? buckets[i] : least;
    }
    return most - least;
}

int main(void) {
    uint8_t message[MESSAGE];
    for (int i = 0; i < MESSAGE; i++) {
        message[i] = (uint8_t)(i * i + 3 * i + 7);
    }
    fill_crc_table();
    uint64_t keyed = 0;
    uint64_t product = 0;
    uint32_t cyclic = 0;
    unsigned buckets[2][BUCKETS] = {{0}};
    for (size_t length = 0; length <= MESSAGE; length++) {
        for (uint64_t key = 0; key < 8; key++) {
            uint64_t hash = sponge_hash(key, ~key, message, length);
            keyed = rotate(keyed, 1) ^ hash;
            buckets[0][hash % BUCKETS]++;
        }
        uint64_t hash = product_hash(message, length);
        product = rotate(product, 1) ^ hash;
        buckets[1][hash % BUCKETS]++;
        cyclic ^= crc(message, length);
    }
    printf("check value of the table: %08x\n", (unsigned)crc((const uint8_t *)"123456789", 9));
    printf("keyed %016llx product %016llx crc %08x\n", (unsigned long long)keyed,
           (unsigned long long)product, (unsigned)cyclic);
    printf("spread %u %u\n", spread(buckets[0]), spread(buckets[1]));
    return 0;
}
