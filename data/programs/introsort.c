// SPDX-License-Identifier: MIT
// Sorting in place: quicksort with a heap sort to fall back on and an insertion sort for short
// runs.

#include <stdint.h>
#include <stdio.h>

enum { RECORDS = 20000, SHORT_RUN = 16 };

struct record {
    uint32_t key;
    uint32_t tag;
};

static struct record records[RECORDS];
static unsigned long comparisons;

static int before(const struct record *a, const struct record *b) {
    comparisons++;
    return a->key != b->key ? a->key < b->key : a->tag < b->tag;
}

static void swap(struct record *a, struct record *b) {
    struct record held = *a;
    *a = *b;
    *b = held;
}

static void insertion_sort(struct record *items, int count) {
    for (int i = 1; i < count; i++) {
        struct record held = items[i];
        int hole = i;
        while (hole > 0 && before(&held, &items[hole - 1])) {
            items[hole] = items[hole - 1];
            hole--;
        }
        items[hole] = held;
    }
}

static void sift_down(struct record *items, int root, int count) {
    for (;;) {
        int child = 2 * root + 1;
        if (child >= count) {
            return;
        }
        if (child + 1 < count && before(&items[child], &items[child + 1])) {
            child++;
        }
        if (!before(&items[root], &items[child])) {
            return;
        }
        swap(&items[root], &items[child]);
        root = child;
    }
}

static void heap_sort(struct record *items, int count) {
    for (int root = count / 2 - 1; root >= 0; root--) {
        sift_down(items, root, count);
    }
    for (int end = count - 1; end > 0; end--) {
        swap(&items[0], &items[end]);
        sift_down(items, 0, end);
    }
}

static int median_of_three(const struct record *items, int a, int b, int c) {
    if (before(&items[a], &items[b])) {
        return before(&items[b], &items[c]) ? b : before(&items[a], &items[c]) ? c : a;
    }
    return before(&items[a], &items[c]) ? a : before(&items[b], &items[c]) ? c : b;
}

static int partition(struct record *items, int count) {
    swap(&items[0], &items[median_of_three(items, 0, count / 2, count - 1)]);
    int boundary = 0;
    for (int i = 1; i < count; i++) {
        if (before(&items[i], &items[0])) {
            swap(&items[++boundary], &items[i]);
        }
    }
    swap(&items[0], &items[boundary]);
    return boundary;
}

static void quick_sort(struct record *items, int count, int depth_left) {
    while (count > SHORT_RUN) {
        if (depth_left-- == 0) {
            heap_sort(items, count);
            return;
        }
        int pivot = partition(items, count);
        quick_sort(items + pivot + 1, count - pivot - 1, depth_left);
        count = pivot;
    }
    insertion_sort(items, count);
}

static void fill(uint32_t seed, uint32_t key_mask) {
    for (uint32_t i = 0; i < RECORDS; i++) {
        seed = seed * 1664525u + 1013904223u;
        records[i].key = (seed >> 8) & key_mask;
        records[i].tag = i;
    }
}

static uint32_t checksum(void) {
    uint32_t sum = 0;
    for (int i = 0; i < RECORDS; i++) {
        sum = sum * 31u + records[i].key * 7u + records[i].tag;
        if (i > 0 && !before(&records[i - 1], &records[i])) {
            printf("out of order at %d\n", i);
        }
    }
    return sum;
}

int main(void) {
    static const uint32_t masks[] = {0xffffffu, 0xffu, 0x3u};
    for (unsigned round = 0; round < sizeof masks / sizeof masks[0]; round++) {
        fill(round + 1, masks[round]);
        quick_sort(records, RECORDS, 24);
        printf("quick %u: %08x\n", round, (unsigned)checksum());
        fill(round + 1, masks[round]);
        heap_sort(records, RECORDS);
        printf("heap %u: %08x\n", round, (unsigned)checksum());
    }
    printf("comparisons: %lu\n", comparisons);
    return 0;
}
