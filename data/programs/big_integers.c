// SPDX-License-Identifier: MIT
// Whole numbers of any length: schoolbook and Karatsuba products, division, powers to a modulus,
// decimal digits.

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { LIMBS = 96, SCHOOLBOOK_MAX = 12 };

struct big {
    int used;
    uint32_t limb[LIMBS];
};

static struct big from_small(uint32_t value) {
    struct big b = {.used = value != 0};
    b.limb[0] = value;
    return b;
}

static void trim(struct big *b) {
    while (b->used > 0 && b->limb[b->used - 1] == 0) {
        b->used--;
    }
}

static int compare(const struct big *a, const struct big *b) {
    if (a->used != b->used) {
        return a->used < b->used ? -1 : 1;
    }
    for (int i = a->used - 1; i >= 0; i--) {
        if (a->limb[i] != b->limb[i]) {
            return a->limb[i] < b->limb[i] ? -1 : 1;
        }
    }
    return 0;
}

static struct big add(const struct big *a, const struct big *b) {
    struct big sum = {0};
    uint64_t carry = 0;
    int longest = a->used > b->used ? a->used : b->used;
    for (int i = 0; i < longest + 1 && i < LIMBS; i++) {
        carry += (uint64_t)a->limb[i] + b->limb[i];
        sum.limb[i] = (uint32_t)carry;
        carry >>= 32;
        sum.used = i + 1;
    }
    trim(&sum);
    return sum;
}

static struct big subtract(const struct big *a, const struct big *b) {
    struct big difference = {.used = a->used};
    uint64_t borrow = 0;
    for (int i = 0; i < a->used; i++) {
        uint64_t part = (uint64_t)a->limb[i] - b->limb[i] - borrow;
        difference.limb[i] = (uint32_t)part;
        borrow = part >> 63;
    }
    trim(&difference);
    return difference;
}

static struct big schoolbook(const struct big *a, const struct big *b) {
    struct big product = {.used = a->used + b->used};
    for (int i = 0; i < a->used; i++) {
        uint64_t carry = 0;
        for (int j = 0; j < b->used; j++) {
            carry += (uint64_t)a->limb[i] * b->limb[j] + product.limb[i + j];
            product.limb[i + j] = (uint32_t)carry;
            carry >>= 32;
        }
        product.limb[i + b->used] = (uint32_t)carry;
    }
    trim(&product);
    return product;
}

static struct big part_of(const struct big *a, int from, int to) {
    struct big part = {0};
    to = to < a->used ? to : a->used;
    if (from < to) {
        part.used = to - from;
        memcpy(part.limb, a->limb + from, (size_t)part.used * sizeof part.limb[0]);
        trim(&part);
    }
    return part;
}

static struct big shifted(const struct big *a, int limbs) {
    struct big result = {.used = a->used > 0 ? a->used + limbs : 0};
    memcpy(result.limb + limbs, a->limb, (size_t)a->used * sizeof a->limb[0]);
    return result;
}

static struct big multiply(const struct big *a, const struct big *b) {
    if (a->used <= SCHOOLBOOK_MAX || b->used <= SCHOOLBOOK_MAX) {
        return schoolbook(a, b);
    }
    int half = (a->used > b->used ? a->used : b->used) / 2;
    struct big a0 = part_of(a, 0, half), a1 = part_of(a, half, LIMBS);
    struct big b0 = part_of(b, 0, half), b1 = part_of(b, half, LIMBS);
    struct big low = multiply(&a0, &b0), high = multiply(&a1, &b1);
    struct big a_sum = add(&a0, &a1), b_sum = add(&b0, &b1);
    struct big middle = multiply(&a_sum, &b_sum);
    middle = subtract(&middle, &low);
    middle = subtract(&middle, &high);
    middle = shifted(&middle, half);
    high = shifted(&high, 2 * half);
    low = add(&low, &middle);
    return add(&low, &high);
}

static uint32_t divide_small(struct big *a, uint32_t divisor) {
    uint64_t rest = 0;
    for (int i = a->used - 1; i >= 0; i--) {
        rest = rest << 32 | a->limb[i];
        a->limb[i] = (uint32_t)(rest / divisor);
        rest %= divisor;
    }
    trim(a);
    return (uint32_t)rest;
}

static struct big modulo(const struct big *a, const struct big *modulus) {
    struct big rest = {0};
    for (int bit = 32 * a->used - 1; bit >= 0; bit--) {
        rest = add(&rest, &rest);
        rest.limb[0] |= a->limb[bit / 32] >> (bit % 32) & 1;
        rest.used += rest.used == 0 && rest.limb[0];
        if (compare(&rest, modulus) >= 0) {
            rest = subtract(&rest, modulus);
        }
    }
    return rest;
}

static struct big power_modulo(struct big base, uint32_t exponent, const struct big *modulus) {
    struct big result = from_small(1);
    for (; exponent > 0; exponent /= 2) {
        if (exponent % 2) {
            result = multiply(&result, &base);
            result = modulo(&result, modulus);
        }
        base = multiply(&base, &base);
        base = modulo(&base, modulus);
    }
    return result;
}

static void print(const char *name, struct big a) {
    uint32_t sum = 0, last = 0;
    int groups = 0;
    for (; a.used > 0; groups++) {
        uint32_t group = divide_small(&a, 1000000000u);
        last = groups == 0 ? group : last;
        sum = sum * 31u + group;
    }
    printf("%s: %d groups of digits, last %09u, sum %08x\n", name, groups, (unsigned)last,
        (unsigned)sum);
}

int main(void) {
    struct big factorial = from_small(1), fibonacci[2] = {from_small(0), from_small(1)};
    for (uint32_t n = 2; n <= 250; n++) {
        struct big factor = from_small(n);
        factorial = multiply(&factorial, &factor);
    }
    for (int n = 0; n < 2000; n++) {
        fibonacci[n % 2] = add(&fibonacci[0], &fibonacci[1]);
    }
    print("250!", factorial);
    print("a Fibonacci number", fibonacci[0]);
    struct big square = multiply(&fibonacci[0], &fibonacci[1]);
    struct big check = schoolbook(&fibonacci[0], &fibonacci[1]);
    print("a product", square);
    printf("products agree: %d\n", compare(&square, &check) == 0);
    struct big modulus = from_small(1);
    modulus = shifted(&modulus, 4);
    struct big small = from_small(159);
    modulus = subtract(&modulus, &small);
    print("a power to a modulus", power_modulo(from_small(3), 65537, &modulus));
    return 0;
}
