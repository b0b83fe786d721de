// SPDX-License-Identifier: MIT
// Reads JSON without building a tree: checks it, counts what is in it, and writes it again without
// blanks.

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { TEXT = 1 << 15, DEPTH_MAX = 64 };

struct reader {
    const char *at;
    char *out;
    int depth;
    int deepest;
    int objects, arrays, strings, numbers, words;
    const char *error;
};

static int value(struct reader *r);

static void put(struct reader *r, char c) {
    *r->out++ = c;
}

static void blanks(struct reader *r) {
    while (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r') {
        r->at++;
    }
}

static int fail(struct reader *r, const char *why) {
    if (!r->error) {
        r->error = why;
    }
    return 0;
}

static int is_hex(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static int string(struct reader *r) {
    put(r, *r->at++);
    while (*r->at != '"') {
        if ((unsigned char)*r->at < 0x20) {
            return fail(r, "control character in a string");
        }
        if (*r->at == '\\') {
            put(r, *r->at++);
            if (*r->at == 'u') {
                for (int digit = 1; digit <= 4; digit++) {
                    if (!is_hex(r->at[digit])) {
                        return fail(r, "bad code point");
                    }
                }
            } else if (*r->at == '\0' || !strchr("\"\\/bfnrt", *r->at)) {
                return fail(r, "bad escape");
            }
        }
        put(r, *r->at++);
    }
    put(r, *r->at++);
    r->strings++;
    return 1;
}

static int digits(struct reader *r) {
    int count = 0;
    for (; *r->at >= '0' && *r->at <= '9'; count++) {
        put(r, *r->at++);
    }
    return count > 0 ? 1 : fail(r, "digit wanted");
}

static int number(struct reader *r) {
    if (*r->at == '-') {
        put(r, *r->at++);
    }
    if (*r->at == '0' && r->at[1] >= '0' && r->at[1] <= '9') {
        return fail(r, "leading zero");
    }
    if (!digits(r)) {
        return 0;
    }
    if (*r->at == '.') {
        put(r, *r->at++);
        if (!digits(r)) {
            return 0;
        }
    }
    if (*r->at == 'e' || *r->at == 'E') {
        put(r, *r->at++);
        if (*r->at == '+' || *r->at == '-') {
            put(r, *r->at++);
        }
        if (!digits(r)) {
            return 0;
        }
    }
    r->numbers++;
    return 1;
}

static int word(struct reader *r, const char *text) {
    size_t length = strlen(text);
    if (strncmp(r->at, text, length) != 0) {
        return fail(r, "unknown word");
    }
    memcpy(r->out, text, length);
    r->out += length;
    r->at += length;
    r->words++;
    return 1;
}

static int members(struct reader *r, char closing, int named) {
    put(r, *r->at++);
    if (++r->depth > DEPTH_MAX) {
        return fail(r, "too deep");
    }
    r->deepest = r->depth > r->deepest ? r->depth : r->deepest;
    blanks(r);
    for (int count = 0; *r->at != closing; count++) {
        if (count > 0) {
            if (*r->at != ',') {
                return fail(r, "comma wanted");
            }
            put(r, *r->at++);
            blanks(r);
        }
        if (named) {
            if (*r->at != '"' || !string(r)) {
                return fail(r, "name wanted");
            }
            blanks(r);
            if (*r->at != ':') {
                return fail(r, "colon wanted");
            }
            put(r, *r->at++);
        }
        if (!value(r)) {
            return 0;
        }
    }
    put(r, *r->at++);
    r->depth--;
    return 1;
}

static int value(struct reader *r) {
    int fine;
    blanks(r);
    switch (*r->at) {
    case '{': fine = members(r, '}', 1); r->objects++; break;
    case '[': fine = members(r, ']', 0); r->arrays++; break;
    case '"': fine = string(r); break;
    case 't': fine = word(r, "true"); break;
    case 'f': fine = word(r, "false"); break;
    case 'n': fine = word(r, "null"); break;
    default: fine = number(r);
    }
    blanks(r);
    return fine;
}

static struct reader check(const char *text, char *out) {
    struct reader r = {.at = text, .out = out};
    if (value(&r) && *r.at != '\0') {
        fail(&r, "something follows the value");
    }
    *r.out = '\0';
    return r;
}

static char *generate(char *to, uint32_t *seed, int depth) {
    *seed = *seed * 1103515245u + 12345u;
    uint32_t choice = (*seed >> 16) % (depth > 0 ? 7 : 5);
    uint32_t count = (*seed >> 20) % 5 + 1;
    switch (choice) {
    case 0: return to + sprintf(to, "-%u.%ue%+d", count, (unsigned)(*seed >> 24), (int)count - 3);
    case 1: return to + sprintf(to, "\"k\\u00%02x \\\"%u\\\"\"", (unsigned)(*seed >> 24), count);
    case 2: return to + sprintf(to, " true ");
    case 3: return to + sprintf(to, "null\t");
    case 4: return to + sprintf(to, "%u", (unsigned)(*seed >> 12));
    default: break;
    }
    *to++ = choice == 5 ? '[' : '{';
    for (uint32_t i = 0; i < count; i++) {
        to += sprintf(to, "%s", i > 0 ? " , \n" : "  ");
        if (choice == 6) {
            to += sprintf(to, "\"name %u\" : ", (unsigned)i);
        }
        to = generate(to, seed, depth - 1);
    }
    *to++ = choice == 5 ? ']' : '}';
    return to;
}

int main(void) {
    static char text[TEXT], once[TEXT], twice[TEXT];
    static const char *const broken[] = {"[1,]", "{\"a\" 1}", "\"\\x\"", "01", "[1 2]", "nul",
        "1 1", "\"\\u12g4\"", "-"};
    uint32_t seed = 7;
    uint32_t sum = 0;
    struct reader total = {0};
    for (int round = 0; round < 400; round++) {
        *generate(text, &seed, 5) = '\0';
        struct reader r = check(text, once);
        struct reader again = check(once, twice);
        if (r.error || again.error || strcmp(once, twice) != 0) {
            printf("round %d: %s\n", round, r.error ? r.error : "differs");
        }
        for (const char *c = once; *c; c++) {
            sum = sum * 131u + (unsigned char)*c;
        }
        total.objects += r.objects;
        total.arrays += r.arrays;
        total.strings += r.strings;
        total.numbers += r.numbers;
        total.words += r.words;
        total.deepest = r.deepest > total.deepest ? r.deepest : total.deepest;
    }
    printf("%d objects, %d arrays, %d strings, %d numbers, %d words, depth %d: %08x\n",
        total.objects,
           total.arrays, total.strings, total.numbers, total.words, total.deepest, (unsigned)sum);
    for (unsigned i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        struct reader r = check(broken[i], once);
        printf("%s: %s\n", broken[i], r.error ? r.error : "fine");
    }
    return 0;
}
