// Parser input: a row softmax with shuffles, shared memory, vector loads and fast math.
#include <cuda_fp16.h>

extern "C" __global__ void __launch_bounds__(256, 2) softmax(const float4* in, __half* out, int columns) {
    __shared__ float partial[8];
    extern __shared__ __align__(128) float row[];
    float most = -INFINITY;
    for (int i = threadIdx.x; i < columns / 4; i += blockDim.x) {
        const float4 v = in[blockIdx.x * (columns / 4) + i];
        reinterpret_cast<float4*>(row)[i] = v;
        most = fmaxf(most, fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)));
    }
    for (int step = 16; step; step /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = most;
    __syncthreads();
    for (int w = 0; w < 8; ++w) most = fmaxf(most, partial[w]);
    float sum = 0;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += row[i] = expf(row[i] - most);
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    __syncthreads();
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
    for (int w = 0; w < 8; ++w) sum += partial[w];
    for (int i = threadIdx.x; i < columns; i += blockDim.x) out[blockIdx.x * columns + i] = __float2half(row[i] / sum);
}
