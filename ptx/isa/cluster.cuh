// Clusters: barriers, and stores to another CTA's shared memory. Section numbers: PTX ISA 9.0.
#pragma once

namespace nvfp4r::ptx {

/// barrier.cluster.arrive.relaxed (9.7.13.4): says that this thread runs; nothing it wrote is made visible.
__device__ __forceinline__ void barrier_cluster_arrive_relaxed() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
/// barrier.cluster.arrive.release (9.7.13.4): makes what this thread wrote visible to those that wait.
__device__ __forceinline__ void barrier_cluster_arrive_release() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
/// barrier.cluster.wait.acquire (9.7.13.4): returns when every thread of the cluster has arrived.
__device__ __forceinline__ void barrier_cluster_wait_acquire() {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// mapa.shared::cluster (9.7.9.23) of `address`, and st.shared::cluster (9.7.9.11) there: a word into the same place of CTA
/// `rank` of the cluster.
__device__ __forceinline__ void st_shared_cluster_u32(const void* address, unsigned rank, unsigned v) {
    asm volatile(
        "{\n\t.reg .u32 there;\n\tmapa.shared::cluster.u32 there, %0, %1;\n\tst.shared::cluster.u32 [there], "
        "%2;\n\t}" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(address))),
        "r"(rank), "r"(v)
        : "memory");
}

}  // namespace nvfp4r::ptx
