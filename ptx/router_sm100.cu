// The router on Blackwell: one launch from hidden states to experts. Experts are the rows of the block-scaled FP4 multiply
// (128 a block), tokens its columns, partial sums of the K slices joined through packets in global memory (join.cuh).
//
// Grid: x = expert groups * K slices, y = token tiles. Every CTA multiplies its experts x its K slice x the tile's tokens.
// A cluster is CTAs of one group, neighbours along K; they share nothing but the search for the tokens' amax.
//
// | warp      | does                                                     | waits for                                 |
// |-----------|----------------------------------------------------------|-------------------------------------------|
// | 0, a lane | gate codes (TMA tensor) and scales (TMA bulk) to stages, | empty[stage]; the first turn of the ring  |
// |           | then codes of NVFP4 tokens (TMA tensor)                  | for nothing, tokens: griddepcontrol.wait  |
// | 1, a lane | scales to TMEM, multiplies, frees stages, signals end    | copied[stage], written[stage]             |
// | 2         | allocates and frees TMEM                                 | the CTA barriers around the work          |
// | 4 ..      | tokens to NVFP4 in shared memory, then accumulators out  | the amax, empty[stage], done              |
// | all       | amax of the tokens (sm100_tokens.cuh)                    | griddepcontrol.wait; a cluster: its CTAs  |
// | all       | join, score, select, write (join.cuh, select.cuh)        | packets of the tile's other CTAs          |
//
// | mbarrier        | arrivals                          | phase ends when                                          |
// |-----------------|-----------------------------------|----------------------------------------------------------|
// | copied[stage]   | 1 (warp 0) + bytes of the stage   | what comes by TMA has landed                             |
// | written[stage]  | token warps                       | what threads write of the token tile is there and fenced |
// | empty[stage]    | 1 (commit)                        | every multiply that read the stage is done               |
// | done            | 1 (commit)                        | the accumulators are complete                            |
//
// Order of the K sum, the same for every launch of a plan: stages ascending; in a stage the products of terms (W1X1; W2X1,
// W1X2; ...), each over the stage's K steps ascending, all in one accumulator; then fp32 sums over slices ascending.
#include "isa/launch.cuh"
#include "isa/mbarrier.cuh"
#include "isa/tcgen05.cuh"
#include "isa/tma.cuh"
#include "isa/warp.cuh"
#include "sm100_copies.cuh"
#include "sm100_layout.cuh"
#include "sm100_multiply.cuh"
#include "sm100_results.cuh"
#include "sm100_tokens.cuh"

namespace nvfp4r {

__device__ __forceinline__ Barriers barriers_of(BlackwellShared& shared) {
    return {ptx::shared_address(shared.copied), ptx::shared_address(shared.written), ptx::shared_address(shared.empty),
            ptx::shared_address(&shared.done)};
}

__device__ __forceinline__ void init_barriers(const Barriers& barriers) {
    for (unsigned s = 0; s < kPlan.stages; ++s) {
        ptx::mbarrier_init(barriers.copied + s * kBarrierBytes, 1);
        ptx::mbarrier_init(barriers.written + s * kBarrierBytes, kTokenWarps);
        ptx::mbarrier_init(barriers.empty + s * kBarrierBytes, 1);
    }
    ptx::mbarrier_init(barriers.done, 1);
    ptx::fence_mbarrier_init();
}

/// The call's optional output of global scales; one CTA of a tile writes them.
__device__ __forceinline__ void write_global_scales(const RouterParams& p, const float* token_scale, const Tile& tile,
                                                    unsigned thread) {
    if (!given(p.global_scales_out) || !kPlan.quantise_tokens || blockIdx.x != 0) return;
    for (unsigned t = thread; t < tile.rows; t += kTokenThreads)
        p.global_scales_out[tile.first_row + t] = row_is_valid(p, tile.first_row + t) ? token_scale[t] : 0.0f;
}

}  // namespace nvfp4r

extern "C" __global__ void __launch_bounds__(nvfp4r::kThreads, 1)
    nvfp4_router(const __grid_constant__ nvfp4r::KernelParams params,
                 const __grid_constant__ nvfp4r::ptx::TensorMap gate,
                 const __grid_constant__ nvfp4r::ptx::TensorMap tokens) {
    using namespace nvfp4r;
    const RouterParams& p = with_options(params);
    extern __shared__ __align__(1024) unsigned char memory[];
    unsigned char* ring = memory;
    BlackwellShared& shared = *reinterpret_cast<BlackwellShared*>(memory + kPlan.stages * kStageBytes);
    const unsigned thread = threadIdx.x, warp = thread / kWarp, lane = thread % kWarp;
    const Work work = work_of_cta();
    const Tile tile = tile_of_cta(p);
    const unsigned ring_address = ptx::shared_address(ring);
    const Barriers barriers = barriers_of(shared);

    if (warp == kLoadWarp && lane == 0) {
        ptx::prefetch_tensormap(&gate);
        if (copies_tokens(p)) ptx::prefetch_tensormap(&tokens);
        init_barriers(barriers);
    }
    if (warp == kTmemWarp) {
        ptx::tcgen05_alloc(ptx::shared_address(&shared.tmem), kPlan.tmem_columns);
        ptx::tcgen05_relinquish_alloc_permit();
    }
    if constexpr (kScaled)
        if (warp >= kFirstTokenWarp) clear_token_scales(ring, thread - kFirstTokenWarp * kWarp);
    clear_amax(shared.token_scale, thread);
    // The allocation is synchronous and its address an ordinary word: no tcgen05.fence belongs to this barrier.
    ptx::bar_sync();
    const unsigned tmem = shared.tmem;

    if (warp == kLoadWarp && ptx::elect_sync()) copy_first_gate(p, gate, work, ring_address, barriers);
    ptx::griddepcontrol_launch_dependents();
    ptx::griddepcontrol_wait();
    unsigned long long ticket = 0;
    if constexpr (kJoins)
        if (thread == 0) ticket = take_ticket(p, tile);
    find_global_scales(p, shared.token_scale, tile, thread);

    if (warp == kLoadWarp && ptx::elect_sync()) copy_stages(p, gate, tokens, tile, work, ring_address, barriers);
    if (warp == kMultiplyWarp && ptx::elect_sync()) multiply(work, ring_address, barriers, tmem);
    if (warp >= kFirstTokenWarp) {
        write_tokens(p, shared, ring, tile, work, barriers, thread - kFirstTokenWarp * kWarp);
        write_global_scales(p, shared.token_scale, tile, thread - kFirstTokenWarp * kWarp);
    }
    ptx::mbarrier_wait_parity(barriers.done, 0);
    ptx::bar_warp_sync();  // tcgen05.ld is an instruction of whole warps
    ptx::tcgen05_fence_after_thread_sync();

    use_accumulators(p, shared.space, shared.token_scale, tile, work, tmem, ticket, thread);
    ptx::tcgen05_fence_before_thread_sync();
    ptx::bar_sync();
    // tcgen05.dealloc is synchronous too, so that the barrier alone orders it after the loads.
    if (warp == kTmemWarp) ptx::tcgen05_dealloc(tmem, kPlan.tmem_columns);
    finish(p, shared.space, shared.token_scale, tile, thread);
}
