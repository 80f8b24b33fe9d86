// Clusters: CTAs that run together and reach each other's shared memory. Section numbers: PTX ISA 9.0.
#pragma once

namespace nvfp4r::ptx {

/// %cluster_ctarank (10): this CTA's number in its cluster.
__device__ __forceinline__ unsigned cluster_ctarank() {
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

/// barrier.cluster.arrive.relaxed (9.7.13.4): says that this thread runs; nothing it wrote is made visible.
__device__ __forceinline__ void barrier_cluster_arrive_relaxed() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
/// barrier.cluster (9.7.13.4): all threads of the cluster; what came before arrive is seen behind wait.
__device__ __forceinline__ void barrier_cluster_arrive() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ __forceinline__ void barrier_cluster_wait() {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// mapa (9.7.9.24) and red.shared::cluster.max (9.7.13.6): the largest of all values sent to the same variable of CTA
/// `rank`.
__device__ __forceinline__ void red_shared_cluster_max_u32(unsigned* variable, unsigned rank, unsigned v) {
    const unsigned own = static_cast<unsigned>(__cvta_generic_to_shared(variable));
    asm volatile(
        "{\n\t.reg .u32 address;\n\tmapa.shared::cluster.u32 address, %0, %1;\n\t"
        "red.relaxed.cluster.shared::cluster.max.u32 [address], %2;\n\t}" ::"r"(own),
        "r"(rank), "r"(v)
        : "memory");
}

/// mapa (9.7.9.24) and st.shared::cluster (9.7.9.11): a word to the same variable of CTA `rank`.
__device__ __forceinline__ void st_shared_cluster_u32(const unsigned* variable, unsigned rank, unsigned v) {
    const unsigned own = static_cast<unsigned>(__cvta_generic_to_shared(variable));
    asm volatile(
        "{\n\t.reg .u32 address;\n\tmapa.shared::cluster.u32 address, %0, %1;\n\t"
        "st.shared::cluster.u32 [address], %2;\n\t}" ::"r"(own),
        "r"(rank), "r"(v)
        : "memory");
}

}  // namespace nvfp4r::ptx
