// Copies of arrays in groups of four numbers, stored past the caches, as the best of copies are. A
// thread copies one group, or four that lie one block's width from each other.
extern "C" __global__ void __launch_bounds__(256)
copy1(const float4* __restrict__ from, float4* __restrict__ to, unsigned long long groups) {
    const unsigned long long at = blockIdx.x * 256ull + threadIdx.x;
    if (at < groups) __stcs(to + at, from[at]);
}

extern "C" __global__ void __launch_bounds__(256)
copy4(const float4* __restrict__ from, float4* __restrict__ to, unsigned long long groups) {
    const unsigned long long first = blockIdx.x * 1024ull + threadIdx.x;
    float4 held[4];
#pragma unroll
    for (int turn = 0; turn < 4; ++turn) {
        const unsigned long long at = first + turn * 256;
        if (at < groups) held[turn] = from[at];
    }
#pragma unroll
    for (int turn = 0; turn < 4; ++turn) {
        const unsigned long long at = first + turn * 256;
        if (at < groups) __stcs(to + at, held[turn]);
    }
}
