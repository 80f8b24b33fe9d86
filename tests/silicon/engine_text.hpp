// Pieces of PTX that the programs of the asynchronous engines share, and their random contents.
#pragma once

#include <fmt/format.h>

#include "silicon/table.hpp"

namespace nvfp4r::silicon {

inline std::vector<uint8_t> random_bytes(Values values, size_t bytes, uint64_t seed) {
    Random random(seed);
    std::vector<uint8_t> out;
    while (out.size() < bytes) {
        const uint64_t value = sample(values, random);
        for (size_t i = 0; i < sizeof(value) && out.size() < bytes; ++i)
            out.push_back(static_cast<uint8_t>(value >> (8 * i)));
    }
    return out;
}

/// All threads of the CTA move `bytes` (a multiple of 16) between shared memory at sm + `shared` and global memory at
/// register `global` plus `offset`, then synchronise. Labels carry `tag`. Uses %r590..%r599 and %d60..%d63.
inline std::string copy_text(bool to_shared, const std::string& global, size_t offset, size_t shared, size_t bytes,
                             unsigned threads, const std::string& tag) {
    return fmt::format(
        "shl.b32 %r590, %tid_x, 4;\ncopy_{0}:\nsetp.ge.u32 %p31, %r590, {1};\n@%p31 bra done_{0};\n"
        "mov.u32 %r591, sm;\nadd.u32 %r591, %r591, %r590;\ncvt.u64.u32 %d60, %r590;\nadd.u64 %d60, %d60, {2};\n{3}"
        "add.u32 %r590, %r590, {4};\nbra copy_{0};\ndone_{0}:\nbar.sync 0;\n",
        tag, bytes, global,
        to_shared ? fmt::format("ld.global.v2.b64 {{%d61, %d62}}, [%d60+{}];\n"
                                "st.shared.v2.b64 [%r591+{}], {{%d61, %d62}};\n",
                                offset, shared)
                  : fmt::format("ld.shared.v2.b64 {{%d61, %d62}}, [%r591+{}];\n"
                                "st.global.v2.b64 [%d60+{}], {{%d61, %d62}};\n",
                                shared, offset),
        threads * 16);
}

/// All threads set `bytes` of shared memory at sm to a pattern, make that visible to the engines and synchronise.
inline std::string pattern_text(size_t bytes, unsigned threads, const std::string& tag) {
    return fmt::format(
        "shl.b32 %r590, %tid_x, 4;\nmov.b64 %d61, 0xeeeeeeeeeeeeeeee;\nfill_{0}:\nsetp.ge.u32 %p31, %r590, {1};\n"
        "@%p31 bra filled_{0};\nmov.u32 %r591, sm;\nadd.u32 %r591, %r591, %r590;\n"
        "st.shared.v2.b64 [%r591], {{%d61, %d61}};\nadd.u32 %r590, %r590, {2};\nbra fill_{0};\nfilled_{0}:\n"
        "fence.proxy.async;\nbar.sync 0;\n",
        tag, bytes, threads * 16);
}

/// One thread initialises mbarrier `offset` bytes into mb with `count`; then all see it.
inline std::string init_text(unsigned offset, unsigned count) {
    return fmt::format(
        "setp.eq.u32 %p30, %tid_x, 0;\n@%p30 mbarrier.init.shared::cta.b64 [mb+{}], {};\n"
        "@%p30 fence.mbarrier_init.release.cluster;\nbar.sync 0;\n",
        offset, count);
}

inline std::string wait_text(unsigned offset, unsigned parity, const std::string& tag) {
    return fmt::format(
        "wait_{0}:\nmbarrier.try_wait.parity.shared::cta.b64 %p31, [mb+{1}], {2};\n@!%p31 bra wait_{0};\n", tag, offset,
        parity);
}

inline const std::string kClusterBarrier = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n";

}  // namespace nvfp4r::silicon
