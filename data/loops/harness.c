// SPDX-License-Identifier: MIT
// Runs the kernel of a schedule: makes its arrays, checks what it computes, and times it.
//
// The standard input has, as decimal numbers: the seed, the number of threads, of runs that do not
// count, and of samples; the least nanoseconds of a sample; the number of elements to show, and for
// each the number of its output and its place. The standard output has a line `samples` with the
// nanoseconds of a run in each, then the bits of each element, as hexadecimal digits.
#define _GNU_SOURCE
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

typedef void nest(float **arrays, char *private, uint64_t thread, uint64_t threads);

// The tables of the kernel's module.
extern const uint64_t loops_nest_count, loops_array_count, loops_private_bytes;
extern nest *const loops_nests[];
extern const uint8_t loops_is_parallel[], loops_contents[];
extern const uint64_t loops_elements[];

enum { INPUT, POSITIVE_INPUT, OUTPUT, TEMPORARY };

enum { HUGE_PAGE_BYTES = 2 << 20, SPINS_MAX = 2000 };

static uint64_t seed, threads, warmups, samples, least_ns, repeats = 1;
static float **arrays;
static char **private;

// The exit code of a kernel that computes something else in a later run.
enum { UNSTEADY = 3 };

static void fail(const char *what) {
    fprintf(stderr, "error: %s\n", what);
    exit(2);
}

static uint64_t number(void) {
    uint64_t read;
    if (scanf("%" SCNu64, &read) != 1) fail("the request cannot be read");
    return read;
}

static void *memory(uint64_t bytes) {
    uint64_t whole = (bytes + HUGE_PAGE_BYTES) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    void *place = aligned_alloc(HUGE_PAGE_BYTES, whole);
    if (!place) fail("there is not enough memory");
    madvise(place, whole, MADV_HUGEPAGE);
    return place;
}

// The output function of SplitMix64, after one step.
static uint64_t mixed(uint64_t bits) {
    bits += 0x9e3779b97f4a7c15;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
    return bits ^ (bits >> 31);
}

// The element of an input, as `reference.rs` has it.
static float element(uint64_t state, uint64_t place, int is_positive) {
    float unit = (float)(mixed(state + place) >> 40) / (1 << 24);
    return is_positive ? 0.5f + unit : 2.0f * unit - 1.0f;
}

static _Atomic uint64_t waiting, turn;

// Waits until all threads are here.
static void meet(void) {
    uint64_t now = atomic_load(&turn);
    if (atomic_fetch_add(&waiting, 1) + 1 == threads) {
        atomic_store(&waiting, 0);
        atomic_store(&turn, now + 1);
        return;
    }
    for (int spins = 0; atomic_load(&turn) == now; spins++) {
        if (spins > SPINS_MAX) sched_yield();
    }
}

static void run(uint64_t thread) {
    for (uint64_t n = 0; n < loops_nest_count; n++) {
        if (loops_is_parallel[n] || thread == 0) {
            loops_nests[n](arrays, private[thread], thread, threads);
        }
        meet();
    }
}

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

// The wall time of one of several runs of all threads.
static double timed(uint64_t thread) {
    meet();
    // The first thread changes `repeats` when its runs are over, and others may still be in theirs.
    uint64_t count = repeats, begin = now_ns();
    for (uint64_t n = 0; n < count; n++) run(thread);
    return (double)(now_ns() - begin) / (double)count;
}

// Fills a thread's share of the arrays.
static void fill(uint64_t thread) {
    uint64_t input = 0;
    for (uint64_t a = 0; a < loops_array_count; a++) {
        uint64_t count = loops_elements[a];
        uint64_t from = count * thread / threads, to = count * (thread + 1) / threads;
        int kind = loops_contents[a];
        if (kind == INPUT || kind == POSITIVE_INPUT) {
            uint64_t state = mixed(seed + input++ * 0xd1b54a32d192ed03);
            for (uint64_t i = from; i < to; i++) {
                arrays[a][i] = element(state, i, kind == POSITIVE_INPUT);
            }
        } else {
            for (uint64_t i = from; i < to; i++) arrays[a][i] = NAN;
        }
    }
}

static void *other(void *argument) {
    uint64_t thread = (uint64_t)(uintptr_t)argument;
    private[thread] = memory(loops_private_bytes);
    fill(thread);
    meet();
    run(thread);
    meet();
    timed(thread);
    meet();
    for (uint64_t n = 0; n < warmups + samples; n++) timed(thread);
    meet();
    return NULL;
}

int main(void) {
    seed = number(), threads = number(), warmups = number(), samples = number();
    least_ns = number();
    uint64_t shown = number();
    float **places = calloc(shown + 1, sizeof *places), *before = calloc(shown + 1, sizeof *before);
    arrays = calloc(loops_array_count, sizeof *arrays);
    private = calloc(threads, sizeof *private);
    double *times = calloc(warmups + samples + 1, sizeof *times);
    if (!places || !before || !arrays || !private || !times) fail("there is not enough memory");
    uint64_t first_output = 0;
    for (uint64_t a = 0; a < loops_array_count; a++) {
        arrays[a] = memory(loops_elements[a] * sizeof(float));
        first_output += loops_contents[a] < OUTPUT;
    }
    for (uint64_t i = 0; i < shown; i++) {
        uint64_t array = first_output + number(), place = number();
        if (array >= loops_array_count || place >= loops_elements[array]) {
            fail("the request asks for what there is not");
        }
        places[i] = &arrays[array][place];
    }
    for (uint64_t thread = 1; thread < threads; thread++) {
        pthread_t started;
        if (pthread_create(&started, NULL, other, (void *)(uintptr_t)thread)) {
            fail("there are not enough threads");
        }
    }
    private[0] = memory(loops_private_bytes);
    fill(0);
    meet();
    run(0);
    for (uint64_t i = 0; i < shown; i++) before[i] = *places[i];
    meet();
    double once = timed(0);
    repeats = once * 2 < (double)least_ns ? (uint64_t)((double)least_ns / (once + 1)) + 1 : 1;
    meet();
    for (uint64_t n = 0; n < warmups + samples; n++) times[n] = timed(0);
    meet();
    printf("samples");
    for (uint64_t n = warmups; n < warmups + samples; n++) printf(" %.3f", times[n]);
    printf("\n");
    for (uint64_t i = 0; i < shown; i++) {
        if (memcmp(&before[i], places[i], sizeof(float))) {
            fprintf(stderr, "error: it does not compute the same whenever it runs\n");
            return UNSTEADY;
        }
        uint32_t bits;
        memcpy(&bits, &before[i], sizeof bits);
        printf("%08" PRIx32 "\n", bits);
    }
    return 0;
}
