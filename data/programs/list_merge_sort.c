// SPDX-License-Identifier: MIT
// A stable merge sort of a singly linked list of words, top down, and one of an array, bottom up.

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { WORDS = 6000, WORD_LENGTH = 8 };

struct node {
    struct node *next;
    int place;
    char word[WORD_LENGTH];
};

static struct node nodes[WORDS];
static int order[WORDS];
static int scratch[WORDS];

static struct node *build(uint32_t seed) {
    for (int i = 0; i < WORDS; i++) {
        seed = seed * 22695477u + 1u;
        int length = 1 + (int)((seed >> 28) % (WORD_LENGTH - 1));
        memset(nodes[i].word, 0, WORD_LENGTH);
        for (int c = 0; c < length; c++) {
            seed = seed * 22695477u + 1u;
            nodes[i].word[c] = (char)('a' + (seed >> 20) % 5);
        }
        nodes[i].place = i;
        nodes[i].next = i + 1 < WORDS ? &nodes[i + 1] : NULL;
    }
    return &nodes[0];
}

static struct node *merge(struct node *left, struct node *right) {
    struct node head = {0};
    struct node *tail = &head;
    while (left && right) {
        struct node **least = strcmp(right->word, left->word) < 0 ? &right : &left;
        tail->next = *least;
        tail = *least;
        *least = (*least)->next;
    }
    tail->next = left ? left : right;
    return head.next;
}

static struct node *split(struct node *list) {
    struct node *slow = list;
    for (struct node *fast = list->next; fast && fast->next; fast = fast->next->next) {
        slow = slow->next;
    }
    struct node *second = slow->next;
    slow->next = NULL;
    return second;
}

static struct node *sort_list(struct node *list) {
    if (!list || !list->next) {
        return list;
    }
    struct node *second = split(list);
    list = sort_list(list);
    return merge(list, sort_list(second));
}

static void merge_runs(const int *from, int *to, int start, int middle, int end) {
    int left = start;
    int right = middle;
    for (int out = start; out < end; out++) {
        int take_right = left == middle;
        if (left < middle && right < end) {
            take_right = strcmp(nodes[from[right]].word, nodes[from[left]].word) < 0;
        }
        to[out] = take_right ? from[right++] : from[left++];
    }
}

static const int *sort_array(void) {
    int *from = order;
    int *to = scratch;
    for (int i = 0; i < WORDS; i++) {
        from[i] = i;
    }
    for (int width = 1; width < WORDS; width *= 2) {
        for (int start = 0; start < WORDS; start += 2 * width) {
            int middle = start + width < WORDS ? start + width : WORDS;
            int end = start + 2 * width < WORDS ? start + 2 * width : WORDS;
            merge_runs(from, to, start, middle, end);
        }
        int *held = from;
        from = to;
        to = held;
    }
    return from;
}

int main(void) {
    for (uint32_t seed = 1; seed <= 3; seed++) {
        struct node *list = sort_list(build(seed));
        const int *sorted = sort_array();
        uint32_t sum = 0;
        int length = 0;
        int differing = 0;
        for (struct node *node = list; node; node = node->next) {
            sum = sum * 65599u + (uint32_t)node->place + (unsigned char)node->word[0];
            differing += node->place != sorted[length];
            length++;
        }
        printf("%d words, first %s: %08x, differing %d\n", length, list->word, (unsigned)sum,
            differing);
    }
    return 0;
}
