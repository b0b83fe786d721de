// Numbers in groups: a pointer is a multiple of the group's size.
static __device__ __forceinline__ void load2(float* to, const float* from) {
    const float2 group = *reinterpret_cast<const float2*>(from);
    to[0] = group.x, to[1] = group.y;
}
static __device__ __forceinline__ void load4(float* to, const float* from) {
    const float4 group = *reinterpret_cast<const float4*>(from);
    to[0] = group.x, to[1] = group.y, to[2] = group.z, to[3] = group.w;
}
static __device__ __forceinline__ void store2(float* to, const float* from) {
    *reinterpret_cast<float2*>(to) = make_float2(from[0], from[1]);
}
static __device__ __forceinline__ void store4(float* to, const float* from) {
    *reinterpret_cast<float4*>(to) = make_float4(from[0], from[1], from[2], from[3]);
}
// Stores that the caches give up first.
static __device__ __forceinline__ void stream1(float* to, const float* from) { __stcs(to, from[0]); }
static __device__ __forceinline__ void stream2(float* to, const float* from) {
    __stcs(reinterpret_cast<float2*>(to), make_float2(from[0], from[1]));
}
static __device__ __forceinline__ void stream4(float* to, const float* from) {
    __stcs(reinterpret_cast<float4*>(to), make_float4(from[0], from[1], from[2], from[3]));
}
static __device__ __forceinline__ int least(int one, int other) { return one < other ? one : other; }
