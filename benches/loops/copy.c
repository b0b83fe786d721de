// SPDX-License-Identifier: MIT
// Measures how fast threads copy memory: `copy BYTES THREADS ROUNDS`. Prints the bytes per second,
// read and written together, of the best round with `memcpy` and with stores past the caches.
#define _GNU_SOURCE
#include <immintrin.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static char *from, *to;
static size_t bytes;
static long threads, rounds;
static int is_streamed;
static pthread_barrier_t barrier;
static double best;

__attribute__((target("avx"))) static void stream(char *to, const char *from, size_t bytes) {
    for (size_t at = 0; at < bytes; at += 128) {
        for (int part = 0; part < 128; part += 32) {
            __m256 vector = _mm256_load_ps((const float *)(from + at + part));
            _mm256_stream_ps((float *)(to + at + part), vector);
        }
    }
    _mm_sfence();
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void *work(void *argument) {
    long thread = (long)(intptr_t)argument;
    size_t share = bytes / (size_t)threads / 4096 * 4096, at = share * (size_t)thread;
    memset(from + at, 1, share);
    memset(to + at, 2, share);
    for (long round = 0; round < rounds; round++) {
        pthread_barrier_wait(&barrier);
        double begin = now();
        if (is_streamed) {
            stream(to + at, from + at, share);
        } else {
            memcpy(to + at, from + at, share);
        }
        pthread_barrier_wait(&barrier);
        double speed = 2.0 * (double)(share * (size_t)threads) / (now() - begin);
        if (thread == 0 && speed > best) best = speed;
    }
    return NULL;
}

int main(int count, char **arguments) {
    if (count != 4) return 2;
    bytes = strtoull(arguments[1], NULL, 10);
    threads = atol(arguments[2]), rounds = atol(arguments[3]);
    from = aligned_alloc(2 << 20, bytes), to = aligned_alloc(2 << 20, bytes);
    if (!from || !to || threads < 1 || threads > 256) return 2;
    madvise(from, bytes, MADV_HUGEPAGE), madvise(to, bytes, MADV_HUGEPAGE);
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    for (is_streamed = 0; is_streamed < 2; is_streamed++) {
        pthread_t others[256];
        best = 0;
        for (long thread = 1; thread < threads; thread++) {
            if (pthread_create(&others[thread], NULL, work, (void *)(intptr_t)thread)) return 2;
        }
        work(NULL);
        for (long thread = 1; thread < threads; thread++) pthread_join(others[thread], NULL);
        printf("%.0f\n", best);
    }
    return 0;
}
