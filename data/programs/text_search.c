// SPDX-License-Identifier: MIT
// Searching text: by failure function, by skips from the end, by rolling hash, and several words
// at once.

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { TEXT = 50000, PATTERN_MAX = 32, NODES_MAX = 128, LETTERS = 4 };

static char text[TEXT + 1];

static int by_failure(const char *pattern) {
    int failure[PATTERN_MAX + 1];
    int length = (int)strlen(pattern);
    int found = 0;
    failure[0] = -1;
    for (int i = 0, k = -1; i < length;) {
        while (k >= 0 && pattern[i] != pattern[k]) {
            k = failure[k];
        }
        failure[++i] = ++k;
    }
    for (int i = 0, k = 0; i < TEXT; i++) {
        while (k >= 0 && (k == length || text[i] != pattern[k])) {
            k = failure[k];
        }
        found += ++k == length;
    }
    return found;
}

static int by_skips(const char *pattern) {
    int skip[256];
    int length = (int)strlen(pattern);
    int found = 0;
    for (int c = 0; c < 256; c++) {
        skip[c] = length;
    }
    for (int i = 0; i + 1 < length; i++) {
        skip[(unsigned char)pattern[i]] = length - 1 - i;
    }
    for (int at = 0; at + length <= TEXT; at += skip[(unsigned char)text[at + length - 1]]) {
        found += memcmp(text + at, pattern, (size_t)length) == 0;
    }
    return found;
}

static int by_hash(const char *pattern) {
    size_t length = strlen(pattern);
    uint32_t wanted = 0, rolling = 0, highest = 1;
    int found = 0;
    for (size_t i = 0; i < length; i++) {
        wanted = wanted * 257u + (unsigned char)pattern[i];
        rolling = rolling * 257u + (unsigned char)text[i];
        highest *= i > 0 ? 257u : 1u;
    }
    for (size_t at = 0;; at++) {
        found += rolling == wanted && memcmp(text + at, pattern, length) == 0;
        if (at + length >= TEXT) {
            return found;
        }
        rolling = (rolling - (unsigned char)text[at] * highest) * 257u
            + (unsigned char)text[at + length];
    }
}

struct automaton {
    int next[NODES_MAX][LETTERS];
    int fail[NODES_MAX];
    int ends[NODES_MAX];
    int nodes;
};

static void add_word(struct automaton *a, const char *word) {
    int node = 0;
    for (; *word; word++) {
        int *next = &a->next[node][*word - 'a'];
        if (*next == 0) {
            *next = a->nodes++;
        }
        node = *next;
    }
    a->ends[node]++;
}

static void link_failures(struct automaton *a) {
    int queue[NODES_MAX];
    int head = 0, tail = 0;
    for (int letter = 0; letter < LETTERS; letter++) {
        if (a->next[0][letter]) {
            queue[tail++] = a->next[0][letter];
        }
    }
    while (head < tail) {
        int node = queue[head++];
        a->ends[node] += a->ends[a->fail[node]];
        for (int letter = 0; letter < LETTERS; letter++) {
            int child = a->next[node][letter];
            int fallback = a->next[a->fail[node]][letter];
            if (child) {
                a->fail[child] = fallback;
                queue[tail++] = child;
            } else {
                a->next[node][letter] = fallback;
            }
        }
    }
}

static int all_at_once(const char *const *words, int count) {
    static struct automaton a;
    a = (struct automaton){.nodes = 1};
    for (int i = 0; i < count; i++) {
        add_word(&a, words[i]);
    }
    link_failures(&a);
    int found = 0;
    for (int i = 0, node = 0; i < TEXT; i++) {
        node = a.next[node][text[i] - 'a'];
        found += a.ends[node];
    }
    return found;
}

int main(void) {
    static const char *const words[] = {"a", "ab", "abab", "ccc", "dacb", "abcabcab", "dddddd",
        "bacdabca"};
    enum { WORDS = sizeof words / sizeof words[0] };
    uint32_t seed = 11;
    for (int i = 0; i < TEXT; i++) {
        seed = seed * 1664525u + 1013904223u;
        text[i] = (seed >> 28) < 6 && i > 8 ? text[i - 3] : (char)('a' + (seed >> 24) % LETTERS);
    }
    int total = 0;
    for (int i = 0; i < WORDS; i++) {
        int found = by_failure(words[i]);
        total += found;
        printf("%s: %d %d %d\n", words[i], found, by_skips(words[i]), by_hash(words[i]));
    }
    printf("together %d, at once %d\n", total, all_at_once(words, WORDS));
    return 0;
}
