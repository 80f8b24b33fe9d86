// Bulk and tensor copies by the TMA unit. Section numbers: PTX ISA 9.0.
#pragma once

namespace nvfp4r::ptx {

/// The driver's opaque tensor map (cuTensorMapEncodeTiled), passed as a __grid_constant__ parameter.
struct alignas(64) TensorMap {
    unsigned long long opaque[16];
};

/// prefetch.tensormap (9.7.9.17): the map's descriptor comes into the cache before its first use.
__device__ __forceinline__ void prefetch_tensormap(const TensorMap* map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/// cp.async.bulk.tensor.2d global -> shared (9.7.9.27.1.2): box at {column, row}; completes `bytes of the box` on the barrier.
/// `policy`: an L2 cache policy of createpolicy.
__device__ __forceinline__ void cp_async_bulk_tensor_2d(unsigned destination, const TensorMap* map, int column, int row,
                                                        unsigned barrier, unsigned long long policy) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
        "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(destination),
        "l"(map), "r"(column), "r"(row), "r"(barrier), "l"(policy)
        : "memory");
}

/// cp.async.bulk global -> shared (9.7.9.25.4.1): `bytes` contiguous bytes; addresses and size are multiples of 16.
__device__ __forceinline__ void cp_async_bulk(unsigned destination, const void* source, unsigned bytes,
                                              unsigned barrier, unsigned long long policy) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
            "r"(destination),
        "l"(source), "r"(bytes), "r"(barrier), "l"(policy)
        : "memory");
}

/// createpolicy.fractional.L2::evict_last (9.7.9.18): the gate is read again by every launch.
__device__ __forceinline__ unsigned long long createpolicy_evict_last() {
    unsigned long long policy;
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

/// createpolicy.fractional.L2::evict_first (9.7.9.18): tokens are read by this launch alone.
__device__ __forceinline__ unsigned long long createpolicy_evict_first() {
    unsigned long long policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

}  // namespace nvfp4r::ptx
