// SPDX-License-Identifier: MIT
// Compiles arithmetic over one variable to code for a stack machine, folds constants, and runs it.

#include <stdint.h>
#include <stdio.h>

enum { CODE_MAX = 256, STACK_MAX = 64 };

enum operation { PUSH, LOAD, ADD, SUBTRACT, MULTIPLY, DIVIDE, NEGATE, LESS, SELECT, STOP };

struct instruction {
    enum operation operation;
    int64_t operand;
};

struct compiler {
    const char *at;
    struct instruction code[CODE_MAX];
    int length;
    int folded;
};

static void conditional(struct compiler *c);

static int is_binary(enum operation operation) {
    return operation == ADD || operation == SUBTRACT || operation == MULTIPLY ||
        operation == DIVIDE || operation == LESS;
}

static int64_t wrap(uint64_t bits) {
    return bits <= INT64_MAX ? (int64_t)bits : -(int64_t)(UINT64_MAX - bits) - 1;
}

static int64_t compute(enum operation operation, int64_t a, int64_t b) {
    switch (operation) {
    case ADD: return wrap((uint64_t)a + (uint64_t)b);
    case SUBTRACT: return wrap((uint64_t)a - (uint64_t)b);
    case MULTIPLY: return wrap((uint64_t)a * (uint64_t)b);
    case DIVIDE: return b == 0 || b == -1 ? 0 : a / b;
    case LESS: return a < b;
    default: return 0;
    }
}

static void emit(struct compiler *c, enum operation operation, int64_t operand) {
    if (c->length >= CODE_MAX) {
        return;
    }
    if (is_binary(operation) && c->length >= 2 && c->code[c->length - 1].operation == PUSH &&
        c->code[c->length - 2].operation == PUSH) {
        struct instruction *left = &c->code[c->length - 2];
        left->operand = compute(operation, left->operand, c->code[c->length - 1].operand);
        c->length--;
        c->folded++;
        return;
    }
    c->code[c->length++] = (struct instruction){operation, operand};
}

static void factor(struct compiler *c) {
    if (*c->at == '(') {
        c->at++;
        conditional(c);
        c->at++;
    } else if (*c->at == '-') {
        c->at++;
        factor(c);
        emit(c, NEGATE, 0);
    } else if (*c->at == 'x') {
        c->at++;
        emit(c, LOAD, 0);
    } else {
        int64_t number = 0;
        while (*c->at >= '0' && *c->at <= '9') {
            number = number * 10 + (*c->at++ - '0');
        }
        emit(c, PUSH, number);
    }
}

static void product(struct compiler *c) {
    factor(c);
    while (*c->at == '*' || *c->at == '/') {
        enum operation operation = *c->at++ == '*' ? MULTIPLY : DIVIDE;
        factor(c);
        emit(c, operation, 0);
    }
}

static void sum(struct compiler *c) {
    product(c);
    while (*c->at == '+' || *c->at == '-') {
        enum operation operation = *c->at++ == '+' ? ADD : SUBTRACT;
        product(c);
        emit(c, operation, 0);
    }
}

static void comparison(struct compiler *c) {
    sum(c);
    if (*c->at == '<') {
        c->at++;
        sum(c);
        emit(c, LESS, 0);
    }
}

static void conditional(struct compiler *c) {
    comparison(c);
    if (*c->at == '?') {
        c->at++;
        conditional(c);
        c->at++;
        conditional(c);
        emit(c, SELECT, 0);
    }
}

static int64_t run(const struct instruction *code, int64_t x) {
    int64_t stack[STACK_MAX] = {0};
    int top = 0;
    for (;; code++) {
        switch (code->operation) {
        case PUSH: stack[top++] = code->operand; break;
        case LOAD: stack[top++] = x; break;
        case NEGATE: stack[top - 1] = wrap(0 - (uint64_t)stack[top - 1]); break;
        case SELECT:
            top -= 2;
            stack[top - 1] = stack[top - 1] ? stack[top] : stack[top + 1];
            break;
        case STOP: return stack[top - 1];
        default:
            top--;
            stack[top - 1] = compute(code->operation, stack[top - 1], stack[top]);
        }
    }
}

int main(void) {
    static const char *const texts[] = {
        "1+2*3-4/2", "x*x*x-3*x+7", "(x<10?x*x:100-x)*(2+3*4)", "-(x-5)*-(x+5)", "x/3*3<x?1:0",
        "((((x+1)*x+2)*x+3)*x+4)*x+5", "x<0?-x:x<100?x/2:x/(x-99)", "9223372036854775807*x+1-2",
    };
    for (unsigned t = 0; t < sizeof texts / sizeof texts[0]; t++) {
        struct compiler c = {.at = texts[t]};
        conditional(&c);
        emit(&c, STOP, 0);
        uint64_t total = 0;
        for (int64_t x = -20000; x < 20000; x++) {
            total = total * 3u + (uint64_t)run(c.code, x);
        }
        printf("%s: %d instructions, %d folded, %016llx\n", texts[t], c.length, c.folded,
            (unsigned long long)total);
    }
    return 0;
}
