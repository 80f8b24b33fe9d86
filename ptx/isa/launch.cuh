// Programmatic dependent launch and CTA barriers. Section numbers are those of the PTX ISA 9.0 manual.
#pragma once

namespace nvfp4r::ptx {

/// griddepcontrol.wait (9.7.13.13): returns when the grids this one depends on have finished and their stores are
/// visible. Without the launch attribute it returns at once.
__device__ __forceinline__ void griddepcontrol_wait() {
    asm volatile("griddepcontrol.wait;" ::: "memory");
}

/// griddepcontrol.launch_dependents (9.7.13.13): the next grid may start once every CTA has executed this or ended.
__device__ __forceinline__ void griddepcontrol_launch_dependents() {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

/// bar.sync (9.7.13.1): all threads of the CTA.
__device__ __forceinline__ void bar_sync() {
    asm volatile("bar.sync 0;" ::: "memory");
}

/// bar.sync a, b (9.7.13.1): barrier `id`, whole warps that add up to `threads`.
__device__ __forceinline__ void bar_sync(unsigned id, unsigned threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// bar.red.and.pred (9.7.13.1): such a barrier that tells every thread whether `predicate` held in all of them.
__device__ __forceinline__ bool bar_red_and(unsigned id, unsigned threads, bool predicate) {
    unsigned all;
    asm volatile(
        "{\n\t.reg .pred in, out;\n\tsetp.ne.u32 in, %3, 0;\n\tbar.red.and.pred out, %1, %2, in;\n\t"
        "selp.u32 %0, 1, 0, out;\n\t}"
        : "=r"(all)
        : "r"(id), "r"(threads), "r"(static_cast<unsigned>(predicate))
        : "memory");
    return all != 0;
}

/// bar.warp.sync (9.7.13.2): all 32 lanes.
__device__ __forceinline__ void bar_warp_sync() {
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
}

}  // namespace nvfp4r::ptx
