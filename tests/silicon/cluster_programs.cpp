// Clusters and distributed shared memory: addresses, remote loads, stores and atomics, st.async and red.async with their
// byte counts, remote arrivals (PTX ISA 9.7.9.22, 9.7.13.8, 9.7.13.15).
#include "silicon/engine_text.hpp"

namespace nvfp4r::silicon {

namespace {

constexpr unsigned kClusterThreads = 64;

// %r2: the rank, %d1: the CTA's part of the output buffer 1.
std::string rank_text(size_t bytes_per_cta) {
    return fmt::format("mov.u32 %r2, %cluster_ctarank;\nmul.wide.u32 %d1, %cta_x, {};\nadd.u64 %d1, %b1, %d1;\n",
                       bytes_per_cta);
}

void add(Programs& programs, const std::string& name, unsigned cluster, unsigned grid, unsigned shared,
         size_t bytes_per_cta, const std::string& body) {
    Program program;
    program.name = name;
    program.buffers = {{random_bytes(Values::words, 4096, 400)}, output_buffer(bytes_per_cta * grid)};
    program.launches = {{.grid = grid, .block = kClusterThreads, .cluster = cluster, .shared = shared}};
    program.ptx = engine_module(program, rank_text(bytes_per_cta) + body + kClusterBarrier);
    programs.push_back(program);
}

void add_registers(Programs& programs, unsigned cluster, unsigned grid) {
    std::string body = "setp.eq.u32 %p1, %tid_x, 0;\n";
    unsigned at = 0;
    const auto record = [&](const std::string& text) {
        body += text + fmt::format("@%p1 st.global.b32 [%d1+{}], %r5;\n", at);
        at += 4;
    };
    for (const char* name : {"cluster_ctaid.x", "cluster_nctaid.x", "cluster_nctaid.y", "cluster_ctarank",
                             "cluster_nctarank", "clusterid.x", "nclusterid.x", "nclusterid.z"})
        record(fmt::format("mov.u32 %r5, %{};\n", name));
    record("mov.pred %p2, %is_explicit_cluster;\nselp.u32 %r5, 1, 0, %p2;\n");
    for (const unsigned rank : {0u, 1u, cluster - 1})
        record(fmt::format("mov.u32 %r4, mb;\nmapa.shared::cluster.u32 %r5, %r4, {};\n", rank));
    record("mov.u32 %r5, mb;\n");
    record("mov.u32 %r4, mb;\ngetctarank.shared::cluster.u32 %r5, %r4;\n");
    record("mov.u32 %r4, mb;\nmapa.shared::cluster.u32 %r4, %r4, 1;\ngetctarank.shared::cluster.u32 %r5, %r4;\n");
    add(programs, fmt::format("registers and addresses of clusters of {}", cluster), cluster, grid, 16, 64, body);
}

// Thread t of each CTA writes to the next CTA, reads from the one after, and adds to a word of rank 0.
void add_remote_access(Programs& programs, unsigned cluster, unsigned grid) {
    const std::string body = fmt::format(
        "shl.b32 %r3, %tid_x, 4;\nmov.u32 %r4, sm;\nadd.u32 %r4, %r4, %r3;\nmad.lo.u32 %r5, %cta_x, 64, %tid_x;\n"
        "and.b32 %r6, %r5, 255;\nmul.wide.u32 %d2, %r6, 16;\nadd.u64 %d2, %b0, %d2;\n"
        "ld.global.v4.b32 {{%r10, %r11, %r12, %r13}}, [%d2];\n"
        "mov.u32 %r20, 0;\nst.shared.b32 [%r4+1024], %r20;\nst.shared.b32 [%r4+1028], %r10;\n{1}"
        "add.u32 %r7, %r2, 1;\nrem.u32 %r7, %r7, {0};\nadd.u32 %r8, %r7, 1;\nrem.u32 %r8, %r8, {0};\n"
        "mapa.shared::cluster.u32 %r14, %r4, %r7;\nst.shared::cluster.v4.b32 [%r14], {{%r10, %r11, %r12, %r13}};\n"
        "mapa.shared::cluster.u32 %r15, %r4, 0;\n"
        "atom.relaxed.cluster.shared::cluster.add.u32 %r16, [%r15+1024], %r11;\n"
        "red.relaxed.cluster.shared::cluster.max.u32 [%r15+1028], %r12;\n{1}"
        "mapa.shared::cluster.u32 %r14, %r4, %r8;\nld.shared::cluster.v2.b64 {{%d4, %d5}}, [%r14];\n"
        "ld.shared::cluster.u8 %r17, [%r14+5];\nld.shared::cluster.b32 %r18, [%r15+1024];\n"
        "ld.shared::cluster.b32 %r19, [%r15+1028];\n"
        "shl.b32 %r21, %tid_x, 5;\ncvt.u64.u32 %d7, %r21;\nadd.u64 %d7, %d1, %d7;\n"
        "st.global.v2.b64 [%d7], {{%d4, %d5}};\nst.global.v4.b32 [%d7+16], {{%r17, %r18, %r19, %r7}};\n",
        cluster, kClusterBarrier);
    add(programs, fmt::format("remote loads, stores and atomics in clusters of {}", cluster), cluster, grid, 2048,
        kClusterThreads * 32, body);
}

// The same through generic addresses: cvta, then mapa.u64.
void add_generic_access(Programs& programs) {
    const std::string body = fmt::format(
        "shl.b32 %r3, %tid_x, 3;\nmov.u32 %r4, sm;\nadd.u32 %r4, %r4, %r3;\ncvt.u64.u32 %d2, %r4;\n"
        "cvta.shared.u64 %d2, %d2;\nadd.u32 %r5, %r2, %tid_x;\nmul.lo.u32 %r5, %r5, 0x9e3779b1;\nmov.b64 %d3, {{%r5, "
        "%r2}};\nst.b64 [%d2], %d3;\n{0}xor.b32 %r6, %r2, 1;\nmapa.u64 %d4, %d2, %r6;\nld.b64 %d5, [%d4];\n"
        "getctarank.u64 %r7, %d4;\nisspacep.shared::cluster %p1, %d4;\nisspacep.shared::cta %p2, %d4;\n"
        "isspacep.shared::cta %p3, %d2;\nisspacep.global %p4, %b1;\nselp.u32 %r8, 1, 0, %p1;\n"
        "@%p2 or.b32 %r8, %r8, 2;\n@%p3 or.b32 %r8, %r8, 4;\n@%p4 or.b32 %r8, %r8, 8;\n"
        "shl.b32 %r9, %tid_x, 4;\ncvt.u64.u32 %d6, %r9;\nadd.u64 %d6, %d1, %d6;\nst.global.b64 [%d6], %d5;\n"
        "st.global.v2.b32 [%d6+8], {{%r7, %r8}};\n",
        kClusterBarrier);
    add(programs, "generic addresses in a cluster", 2, 4, 1024, kClusterThreads * 16, body);
}

// Each thread sends its values to the other CTA; the barrier there counts the bytes.
void add_async_stores(Programs& programs) {
    struct Width {
        const char* type;
        const char* values;
        unsigned bytes;
    };
    constexpr Width kWidths[] = {{"b32", "%r10", 4},
                                 {"b64", "%d4", 8},
                                 {"v2.b32", "{%r10, %r11}", 8},
                                 {"v4.b32", "{%r10, %r11, %r12, %r13}", 16},
                                 {"v2.b64", "{%d4, %d5}", 16}};
    for (const Width& width : kWidths) {
        std::string body = init_text(0, 1) + pattern_text(1024, kClusterThreads, "p");
        body += fmt::format(
            "@%p30 mbarrier.arrive.expect_tx.shared::cta.b64 _, [mb], {0};\n{1}xor.b32 %r3, %r2, 1;\n"
            "shl.b32 %r4, %tid_x, 4;\nmov.u32 %r5, sm;\nadd.u32 %r5, %r5, %r4;\n"
            "mapa.shared::cluster.u32 %r5, %r5, %r3;\nmov.u32 %r6, mb;\nmapa.shared::cluster.u32 %r6, %r6, %r3;\n"
            "mul.lo.u32 %r10, %tid_x, 0x9e3779b1;\nadd.u32 %r10, %r10, %r2;\nnot.b32 %r11, %r10;\n"
            "add.u32 %r12, %r10, 7;\nxor.b32 %r13, %r10, 0xffff;\nmov.b64 %d4, {{%r10, %r11}};\n"
            "mov.b64 %d5, {{%r12, %r13}};\n"
            "st.async.shared::cluster.mbarrier::complete_tx::bytes.{2} [%r5], {3}, [%r6];\n",
            kClusterThreads * width.bytes, kClusterBarrier, width.type, width.values);
        body += wait_text(0, 0, "w") + copy_text(false, "%d1", 0, 0, 1024, kClusterThreads, "out");
        add(programs, fmt::format("st.async {}", width.type), 2, 2, 1024, 1024, body);
    }
}

// Every thread of both CTAs reduces onto the words of rank 0: the results do not depend on the order.
void add_async_reductions(Programs& programs) {
    for (const std::string& operation :
         expand("<add.u32|add.s32|min.u32|max.u32|min.s32|max.s32|and.b32|or.b32|xor.b32|add.u64|inc.u32|dec.u32>")) {
        const bool wide = operation == "add.u64";
        std::string body = init_text(0, 1) + pattern_text(1024, kClusterThreads, "p");
        body += fmt::format(
            "setp.eq.and.u32 %p1, %r2, 0, %p30;\n@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [mb], {0};\n{1}"
            "and.b32 %r4, %tid_x, 7;\nshl.b32 %r4, %r4, 3;\nmov.u32 %r5, sm;\nadd.u32 %r5, %r5, %r4;\n"
            "mapa.shared::cluster.u32 %r5, %r5, 0;\nmov.u32 %r6, mb;\nmapa.shared::cluster.u32 %r6, %r6, 0;\n"
            "mad.lo.u32 %r10, %r2, 64, %tid_x;\nmul.lo.u32 %r10, %r10, 0x9e3779b1;\n{4}mov.b64 %d4, {{%r10, %r10}};\n"
            "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{2} [%r5], {3}, [%r6];\n"
            "setp.ne.u32 %p2, %r2, 0;\n@%p2 bra leave;\n",
            2 * kClusterThreads * (wide ? 8 : 4), kClusterBarrier, operation, wide ? "%d4" : "%r10",
            // Wrapping at a bound is independent of the order only when the bound is the same.
            operation == "inc.u32" || operation == "dec.u32" ? "mov.u32 %r10, 0xfffffff0;\n" : "");
        body += wait_text(0, 0, "w") + copy_text(false, "%d1", 0, 0, 1024, kClusterThreads, "out") + "leave:\n";
        add(programs, "red.async " + operation, 2, 2, 1024, 1024, body);
    }
}

// All threads of four CTAs arrive at the barrier of rank 0 with a count, which completes its phase exactly.
void add_remote_arrivals(Programs& programs) {
    const std::string body =
        init_text(0, 4 * kClusterThreads * 2) + "mov.u32 %r9, 0;\n" + kClusterBarrier +
        "mov.u32 %r6, mb;\nmapa.shared::cluster.u32 %r6, %r6, 0;\n"
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];\n" +
        kClusterBarrier +
        "setp.ne.u32 %p2, %r2, 0;\n@%p2 bra rest;\nmbarrier.test_wait.parity.shared::cta.b64 %p1, [mb], 0;\n"
        "selp.u32 %r9, 1, 0, %p1;\nrest:\n" +
        kClusterBarrier + "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6], 1;\n" + kClusterBarrier +
        "@%p2 bra last;\nmbarrier.test_wait.parity.shared::cta.b64 %p1, [mb], 0;\n@%p1 or.b32 %r9, %r9, 2;\nlast:\n"
        "shl.b32 %r3, %tid_x, 2;\ncvt.u64.u32 %d2, %r3;\nadd.u64 %d2, %d1, %d2;\nst.global.b32 [%d2], %r9;\n";
    add(programs, "remote arrivals", 4, 4, 16, kClusterThreads * 4, body);
}

}  // namespace

void add_cluster_programs(Programs& programs) {
    add_registers(programs, 2, 6);
    add_registers(programs, 3, 6);
    add_registers(programs, 8, 8);
    for (const unsigned cluster : {2u, 4u, 5u}) add_remote_access(programs, cluster, cluster);
    add_generic_access(programs);
    add_async_stores(programs);
    add_async_reductions(programs);
    add_remote_arrivals(programs);
}

}  // namespace nvfp4r::silicon
