// SPDX-License-Identifier: MIT
// A hash table with open addressing: an entry far from home takes the place of one that is near
// its own.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct slot {
    uint32_t key; // 0: free
    uint32_t value;
};

struct table {
    struct slot *slots;
    uint32_t mask;
    uint32_t used;
};

static uint32_t home(const struct table *t, uint32_t key) {
    uint32_t hash = key * 2654435769u;
    return (hash ^ (hash >> 15)) & t->mask;
}

static uint32_t distance(const struct table *t, uint32_t at) {
    return (at - home(t, t->slots[at].key)) & t->mask;
}

static void start(struct table *t, uint32_t capacity) {
    t->slots = calloc(capacity, sizeof *t->slots);
    if (!t->slots) {
        exit(1);
    }
    t->mask = capacity - 1;
    t->used = 0;
}

static void place(struct table *t, struct slot entry) {
    uint32_t at = home(t, entry.key);
    for (uint32_t far = 0;; far++, at = (at + 1) & t->mask) {
        if (t->slots[at].key == 0) {
            t->slots[at] = entry;
            t->used++;
            return;
        }
        uint32_t resident = distance(t, at);
        if (resident < far) {
            struct slot held = t->slots[at];
            t->slots[at] = entry;
            entry = held;
            far = resident;
        }
    }
}

static struct slot *find(const struct table *t, uint32_t key) {
    uint32_t at = home(t, key);
    for (uint32_t far = 0; t->slots[at].key != 0; far++, at = (at + 1) & t->mask) {
        if (t->slots[at].key == key) {
            return &t->slots[at];
        }
        if (distance(t, at) < far) {
            return NULL;
        }
    }
    return NULL;
}

static void grow(struct table *t) {
    struct table larger;
    start(&larger, 2 * (t->mask + 1));
    for (uint32_t at = 0; at <= t->mask; at++) {
        if (t->slots[at].key != 0) {
            place(&larger, t->slots[at]);
        }
    }
    free(t->slots);
    *t = larger;
}

static void add(struct table *t, uint32_t key, uint32_t value) {
    struct slot *known = find(t, key);
    if (known) {
        known->value += value;
        return;
    }
    if (10 * (t->used + 1) > 9 * (t->mask + 1)) {
        grow(t);
    }
    place(t, (struct slot){key, value});
}

static int take_out(struct table *t, uint32_t key) {
    struct slot *gone = find(t, key);
    if (!gone) {
        return 0;
    }
    uint32_t at = (uint32_t)(gone - t->slots);
    uint32_t next = (at + 1) & t->mask;
    while (t->slots[next].key != 0 && distance(t, next) > 0) {
        t->slots[at] = t->slots[next];
        at = next;
        next = (next + 1) & t->mask;
    }
    t->slots[at].key = 0;
    t->used--;
    return 1;
}

int main(void) {
    struct table t;
    start(&t, 16);
    uint32_t random = 2463534242u;
    uint32_t removed = 0;
    for (uint32_t i = 0; i < 120000; i++) {
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        uint32_t key = 1 + random % 30000;
        if (random >> 30 == 0) {
            removed += (uint32_t)take_out(&t, key);
        } else {
            add(&t, key, i & 15);
        }
    }
    uint32_t sum = 0;
    uint32_t farthest = 0;
    for (uint32_t key = 1; key <= 30000; key++) {
        struct slot *entry = find(&t, key);
        sum = sum * 33u + (entry ? entry->value + 1 : 0);
    }
    for (uint32_t at = 0; at <= t.mask; at++) {
        if (t.slots[at].key != 0 && distance(&t, at) > farthest) {
            farthest = distance(&t, at);
        }
    }
    printf("used %u of %u, removed %u, farthest %u, sum %08x\n", (unsigned)t.used,
        (unsigned)t.mask + 1,
           (unsigned)removed, (unsigned)farthest, (unsigned)sum);
    free(t.slots);
    return 0;
}
