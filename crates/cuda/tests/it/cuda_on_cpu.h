// CUDA C++ as ordinary C++: the threads of a block take turns, each until it waits or ends.
//
// Threads run one at a time, from the first to the last or the other way round, so a value that one
// uses before another has made it differs between the orders. Shared memory keeps what the block
// before left there.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(threads)
#define __align__(bytes) __attribute__((aligned(bytes)))
// Blocks run one after another, so one array serves all of them.
#define __shared__ static

// A group begins at a multiple of its size, or a sanitizer stops the program.
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
struct dim3 { int x; };
static dim3 blockIdx, threadIdx;

inline float __int_as_float(unsigned bits) {
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

template <class Group> void __stcs(Group* to, Group value) { *to = value; }

namespace device {

constexpr size_t stack_bytes = 256 << 10;

struct Thread {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    bool is_waiting = false, is_done = false;
};

static ucontext_t scheduler;
static std::vector<Thread> threads;
static Thread* running;
static std::function<void()> body;

inline void begin() {
    body();
    running->is_done = true;
    swapcontext(&running->context, &scheduler);
}

inline void wait() {
    running->is_waiting = true;
    swapcontext(&running->context, &scheduler);
}

inline void resume(int number) {
    running = &threads[number];
    threadIdx.x = number;
    swapcontext(&scheduler, &running->context);
}

inline void run_block(int count, bool is_backwards) {
    for (int number = 0; number < count; ++number) {
        Thread& thread = threads[number];
        thread.is_done = thread.is_waiting = false;
        getcontext(&thread.context);
        thread.context.uc_stack.ss_sp = thread.stack.get();
        thread.context.uc_stack.ss_size = stack_bytes;
        makecontext(&thread.context, begin, 0);
    }
    for (;;) {
        int waiting = 0, done = 0;
        for (int turn = 0; turn < count; ++turn) {
            const int number = is_backwards ? count - 1 - turn : turn;
            threads[number].is_waiting = false;
            resume(number);
            waiting += threads[number].is_waiting, done += threads[number].is_done;
        }
        if (done == count) return;
        if (waiting != count) {
            fprintf(stderr, "%d threads wait for %d that have ended\n", waiting, done);
            abort();
        }
    }
}

// Runs a kernel. `is_backwards` says in which order blocks and threads take turns.
inline void launch(int blocks, int count, bool is_backwards, std::function<void()> kernel) {
    body = kernel;
    while (int(threads.size()) < count) {
        threads.emplace_back();
        threads.back().stack = std::make_unique<char[]>(stack_bytes);
    }
    for (int turn = 0; turn < blocks; ++turn) {
        blockIdx.x = is_backwards ? blocks - 1 - turn : turn;
        run_block(count, is_backwards);
    }
}

// An array that begins at a multiple of 256 bytes and holds NaN.
struct Array {
    explicit Array(size_t count) : count(count) {
        const size_t bytes = (count * sizeof(float) + 511) / 256 * 256;
        numbers = static_cast<float*>(aligned_alloc(256, bytes));
        std::fill(numbers, numbers + bytes / sizeof(float), NAN);
    }
    ~Array() { free(numbers); }
    Array(const Array&) = delete;
    void read(FILE* file) {
        if (fread(numbers, sizeof(float), count, file) != count) abort();
    }
    void write(FILE* file) const { fwrite(numbers, sizeof(float), count, file); }
    size_t count;
    float* numbers;
};

}  // namespace device

inline void __syncthreads() { device::wait(); }
