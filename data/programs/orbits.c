// SPDX-License-Identifier: MIT
// Bodies under gravity: a leapfrog integrator and one of the fourth order, with the drift of
// energy and momentum.

#include <stdio.h>
#include <string.h>

enum { BODIES = 6 };

struct vector {
    double x, y, z;
};

struct body {
    struct vector position, velocity;
    double mass;
};

static struct vector plus(struct vector a, struct vector b, double factor) {
    return (struct vector){a.x + factor * b.x, a.y + factor * b.y, a.z + factor * b.z};
}

static double dot(struct vector a, struct vector b) {
    return a.x * b.x + a.y * b.y + a.z * b.z;
}

// Newton's method: every operation is exact to the last place, so every build gives the same
// digits.
static double square_root(double x) {
    double root = x > 1 ? x : 1;
    for (int i = 0; i < 60; i++) {
        double better = 0.5 * (root + x / root);
        if (better >= root) {
            break;
        }
        root = better;
    }
    return root;
}

static void accelerations(const struct body *bodies, struct vector *out) {
    memset(out, 0, BODIES * sizeof *out);
    for (int i = 0; i < BODIES; i++) {
        for (int j = i + 1; j < BODIES; j++) {
            struct vector between = plus(bodies[j].position, bodies[i].position, -1);
            double squared = dot(between, between) + 0.01;
            double scale = 1 / (squared * square_root(squared));
            out[i] = plus(out[i], between, scale * bodies[j].mass);
            out[j] = plus(out[j], between, -scale * bodies[i].mass);
        }
    }
}

static double energy(const struct body *bodies) {
    double total = 0;
    for (int i = 0; i < BODIES; i++) {
        total += 0.5 * bodies[i].mass * dot(bodies[i].velocity, bodies[i].velocity);
        for (int j = i + 1; j < BODIES; j++) {
            struct vector between = plus(bodies[j].position, bodies[i].position, -1);
            total -= bodies[i].mass * bodies[j].mass / square_root(dot(between, between) + 0.01);
        }
    }
    return total;
}

static struct vector momentum(const struct body *bodies) {
    struct vector total = {0, 0, 0};
    for (int i = 0; i < BODIES; i++) {
        total = plus(total, bodies[i].velocity, bodies[i].mass);
    }
    return total;
}

static void kick(struct body *bodies, double time) {
    struct vector pull[BODIES];
    accelerations(bodies, pull);
    for (int i = 0; i < BODIES; i++) {
        bodies[i].velocity = plus(bodies[i].velocity, pull[i], time);
    }
}

static void drift(struct body *bodies, double time) {
    for (int i = 0; i < BODIES; i++) {
        bodies[i].position = plus(bodies[i].position, bodies[i].velocity, time);
    }
}

static void leapfrog(struct body *bodies, double time) {
    drift(bodies, time / 2);
    kick(bodies, time);
    drift(bodies, time / 2);
}

static void fourth_order(struct body *bodies, double time) {
    const double outer = 1.3512071919596578;
    leapfrog(bodies, outer * time);
    leapfrog(bodies, (1 - 2 * outer) * time);
    leapfrog(bodies, outer * time);
}

static void begin(struct body *bodies) {
    for (int i = 0; i < BODIES; i++) {
        double far = 1 + 2 * i;
        double side = i % 2 ? -1 : 1;
        bodies[i].mass = i == 0 ? 10 : 0.1 * (i + 1);
        bodies[i].position = (struct vector){i == 0 ? 0 : far * side, 0.1 * i, -0.05 * i};
        bodies[i].velocity = (struct vector){0, i == 0 ? 0 : side * square_root(10 / far),
            0.02 * i};
    }
}

static void report(const char *name, void (*advance)(struct body *, double), double time,
    int steps) {
    struct body bodies[BODIES];
    begin(bodies);
    double before = energy(bodies);
    for (int step = 0; step < steps; step++) {
        advance(bodies, time);
    }
    struct vector total = momentum(bodies);
    printf("%s: energy %.6f -> %.6f, momentum %.6f %.6f %.6f\n", name, before, energy(bodies),
        total.x, total.y,
           total.z);
    for (int i = 0; i < BODIES; i++) {
        printf("  body %d at %.5f %.5f %.5f\n", i, bodies[i].position.x, bodies[i].position.y,
               bodies[i].position.z);
    }
}

int main(void) {
    report("leapfrog", leapfrog, 0.002, 5000);
    report("fourth order", fourth_order, 0.01, 1000);
    return 0;
}
