// SPDX-License-Identifier: MIT
// Regular expressions: compiled to a machine of many states at once, and matched by backtracking
// to compare.

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { PROGRAM_MAX = 128, FUEL = 200000 };
enum operation { CHARACTER, ANY, CLASS, SPLIT, JUMP, MATCH };

struct instruction {
    enum operation operation;
    int first, second;
    uint32_t letters; // of a class: bit 0 is `a`
};

struct program {
    const char *at;
    struct instruction code[PROGRAM_MAX];
    int length;
};

static void alternatives(struct program *p);

static int emit(struct program *p, enum operation operation, int first, int second) {
    p->code[p->length] = (struct instruction){operation, first, second, 0};
    return p->length++;
}

static void make_room(struct program *p, int at) {
    memmove(&p->code[at + 1], &p->code[at], (size_t)(p->length - at) * sizeof p->code[0]);
    p->length++;
    for (int i = at + 1; i < p->length; i++) {
        if (p->code[i].operation == SPLIT || p->code[i].operation == JUMP) {
            p->code[i].first += p->code[i].first >= at;
            p->code[i].second += p->code[i].second >= at;
        }
    }
}

static void atom(struct program *p) {
    char c = *p->at++;
    if (c == '(') {
        alternatives(p);
        p->at++;
    } else if (c == '.') {
        emit(p, ANY, 0, 0);
    } else if (c == '[') {
        int at = emit(p, CLASS, 0, 0);
        for (; *p->at != ']'; p->at++) {
            p->code[at].letters |= 1u << (*p->at - 'a');
        }
        p->at++;
    } else {
        emit(p, CHARACTER, c, 0);
    }
}

static void repeated(struct program *p) {
    int start = p->length;
    atom(p);
    for (; *p->at == '*' || *p->at == '+' || *p->at == '?'; p->at++) {
        if (*p->at == '+') {
            emit(p, SPLIT, start, p->length + 1);
            continue;
        }
        int loops = *p->at == '*';
        make_room(p, start);
        p->code[start] = (struct instruction){SPLIT, start + 1, p->length + loops, 0};
        if (loops) {
            emit(p, JUMP, start, 0);
        }
    }
}

static void sequence(struct program *p) {
    while (*p->at != '\0' && *p->at != '|' && *p->at != ')') {
        repeated(p);
    }
}

static void alternatives(struct program *p) {
    int start = p->length;
    sequence(p);
    if (*p->at == '|') {
        p->at++;
        make_room(p, start);
        int jump = emit(p, JUMP, 0, 0);
        p->code[start] = (struct instruction){SPLIT, start + 1, p->length, 0};
        alternatives(p);
        p->code[jump].first = p->length;
    }
}

static int accepts(const struct instruction *i, char c) {
    switch (i->operation) {
    case CHARACTER: return i->first == c;
    case ANY: return 1;
    case CLASS: return c >= 'a' && c <= 'z' && (i->letters >> (c - 'a') & 1);
    default: return 0;
    }
}

struct threads {
    int list[PROGRAM_MAX];
    unsigned char in[PROGRAM_MAX];
    int count;
};

static void follow(const struct program *p, struct threads *t, int at) {
    if (t->in[at]) {
        return;
    }
    t->in[at] = 1;
    if (p->code[at].operation == JUMP) {
        follow(p, t, p->code[at].first);
    } else if (p->code[at].operation == SPLIT) {
        follow(p, t, p->code[at].first);
        follow(p, t, p->code[at].second);
    } else {
        t->list[t->count++] = at;
    }
}

static int match_at_once(const struct program *p, const char *text) {
    static struct threads sets[2];
    struct threads *now = &sets[0], *next = &sets[1];
    *now = (struct threads){.count = 0};
    follow(p, now, 0);
    for (; *text; text++) {
        *next = (struct threads){.count = 0};
        for (int i = 0; i < now->count; i++) {
            if (accepts(&p->code[now->list[i]], *text)) {
                follow(p, next, now->list[i] + 1);
            }
        }
        struct threads *held = now;
        now = next;
        next = held;
    }
    for (int i = 0; i < now->count; i++) {
        if (p->code[now->list[i]].operation == MATCH) {
            return 1;
        }
    }
    return 0;
}

static int backtrack(const struct program *p, int at, const char *text, int *fuel) {
    while (--*fuel > 0) {
        const struct instruction *i = &p->code[at];
        switch (i->operation) {
        case MATCH: return *text == '\0';
        case JUMP: at = i->first; break;
        case SPLIT:
            if (backtrack(p, i->first, text, fuel)) {
                return 1;
            }
            at = i->second;
            break;
        default:
            if (*text == '\0' || !accepts(i, *text++)) {
                return 0;
            }
            at++;
        }
    }
    return 0;
}

int main(void) {
    static const char *const patterns[] = {"a*b", "(ab|ba)+", "[abc]+d?", "a.c|b.*", "(a|b)*abb",
        "a?a?a?aaa", "((ab)*c|d+)(a|c)"};
    for (unsigned i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        struct program p = {.at = patterns[i]};
        alternatives(&p);
        emit(&p, MATCH, 0, 0);
        unsigned matched = 0, differing = 0;
        uint32_t sum = 0;
        for (uint32_t text = 0; text < 5461; text++) {
            char word[8];
            int length = 0;
            for (uint32_t rest = text; rest > 0; rest = (rest - 1) / 4) {
                word[length++] = (char)('a' + (rest - 1) % 4);
            }
            word[length] = '\0';
            int fuel = FUEL;
            int matches = match_at_once(&p, word);
            differing += matches != backtrack(&p, 0, word, &fuel);
            matched += (unsigned)matches;
            sum = sum * 31u + (uint32_t)matches;
        }
        printf("%s: %d instructions, %u matched, %u differing, %08x\n", patterns[i], p.length,
            matched, differing, (unsigned)sum);
    }
    return 0;
}
