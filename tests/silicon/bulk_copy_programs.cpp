// cp.async.bulk and cp.reduce.async.bulk without a tensor map (PTX ISA 9.7.9.25): global to shared, shared to global,
// between the CTAs of a cluster, and reductions.
#include <array>

#include "silicon/engine_text.hpp"

namespace nvfp4r::silicon {

namespace {

constexpr unsigned kCopyThreads = 64;
constexpr size_t kImage = 2048;

void add_global_to_shared(Programs& programs) {
    Program program;
    program.name = "bulk copy global to shared";
    struct Piece {
        size_t from, to, bytes;
    };
    const std::vector<Piece> pieces = {{0, 0, 16}, {16, 48, 48}, {1008, 16, 1024}, {32, 0, 2048}, {4080, 2032, 16}};
    program.buffers = {{random_bytes(Values::words, 4096, 201)}, output_buffer(kImage * pieces.size())};
    std::string body = init_text(0, 1);
    for (size_t i = 0; i < pieces.size(); ++i) {
        const Piece& piece = pieces[i];
        const std::string tag = std::to_string(i);
        body += pattern_text(kImage, kCopyThreads, tag);
        body += fmt::format(
            "mov.u32 %r1, sm;\n@%p30 mbarrier.arrive.expect_tx.shared::cta.b64 _, [mb], {0};\n"
            "@%p30 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1+{1}], [%b0+{2}], {0}, "
            "[mb];\n",
            piece.bytes, piece.to, piece.from);
        body += wait_text(0, i % 2, tag) + copy_text(false, "%b1", i * kImage, 0, kImage, kCopyThreads, "out" + tag);
    }
    program.launches = {{.block = kCopyThreads, .shared = kImage}};
    program.ptx = engine_module(program, body);
    programs.push_back(program);
}

// `operation`: "" or ".add.u32" and the like.
void add_shared_to_global(Programs& programs, const std::string& operation, Values values,
                          const std::string& note = "") {
    Program program;
    program.name = operation.empty() ? "bulk copy shared to global" : "bulk reduce" + operation + " to global" + note;
    program.buffers = {{random_bytes(values, 2 * kImage, 202), true}, {random_bytes(values, kImage, 203)}};
    std::string body = copy_text(true, "%b1", 0, 0, kImage, kCopyThreads, "in");
    body += "fence.proxy.async;\nbar.sync 0;\nsetp.eq.u32 %p1, %tid_x, 0;\nmov.u32 %r1, sm;\n";
    const std::string opcode = operation.empty() ? "cp.async.bulk.global.shared::cta.bulk_group"
                                                 : "cp.reduce.async.bulk.global.shared::cta.bulk_group" + operation;
    for (const auto& [to, from, bytes] : {std::array<size_t, 3>{0, 0, kImage}, {2064, 16, 48}, {4080, 64, 16}}) {
        body += fmt::format(
            "@%p1 {} [%b0+{}], [%r1+{}], {};\n@%p1 cp.async.bulk.commit_group;\n@%p1 cp.async.bulk.wait_group 0;\n",
            opcode, to, from, bytes);
    }
    program.launches = {{.block = kCopyThreads, .shared = kImage}};
    program.ptx = engine_module(program, body);
    programs.push_back(program);
}

// Rank 0 sends its image to rank 1 and rank 1 to rank 0, onto data that is there; "" copies.
void add_shared_to_shared(Programs& programs, const std::string& operation) {
    Program program;
    program.name = operation.empty() ? "bulk copy between CTAs" : "bulk reduce" + operation + " between CTAs";
    program.buffers = {{random_bytes(Values::words, 4 * kImage, 204)}, output_buffer(2 * kImage)};
    std::string body = init_text(0, 1);
    body +=
        fmt::format("mov.u32 %r2, %cluster_ctarank;\nmul.wide.u32 %d1, %r2, {};\nadd.u64 %d2, %b0, %d1;\n", 2 * kImage);
    body += copy_text(true, "%d2", 0, 0, 2 * kImage, kCopyThreads, "in");
    body += fmt::format("fence.proxy.async;\n@%p30 mbarrier.arrive.expect_tx.shared::cta.b64 _, [mb], {};\n", kImage) +
            kClusterBarrier;
    const std::string opcode =
        operation.empty() ? "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
                          : "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes" + operation;
    body += fmt::format(
        "xor.b32 %r3, %r2, 1;\nmov.u32 %r1, sm;\nadd.u32 %r4, %r1, {0};\nmapa.shared::cluster.u32 %r4, %r4, %r3;\n"
        "mov.u32 %r5, mb;\nmapa.shared::cluster.u32 %r5, %r5, %r3;\n@%p30 {1} [%r4], [%r1], {0}, [%r5];\n",
        kImage, opcode);
    body += wait_text(0, 0, "w");
    body += fmt::format("mul.wide.u32 %d1, %r2, {};\nadd.u64 %d1, %b1, %d1;\n", kImage);
    body += copy_text(false, "%d1", 0, kImage, kImage, kCopyThreads, "out") + kClusterBarrier;
    program.launches = {{.grid = 2, .block = kCopyThreads, .cluster = 2, .shared = 2 * kImage}};
    program.ptx = engine_module(program, body);
    programs.push_back(program);
}

void add_multicast(Programs& programs) {
    Program program;
    program.name = "bulk copy multicast";
    program.buffers = {{random_bytes(Values::words, kImage, 205)}, output_buffer(4 * kImage)};
    std::string body = init_text(0, 1) + pattern_text(kImage, kCopyThreads, "p");
    // Rank 3 sends one half to ranks 0 and 2, rank 0 the other to all.
    body += fmt::format(
                "mov.u32 %r2, %cluster_ctarank;\nand.b32 %r3, %r2, 1;\nsetp.eq.u32 %p1, %r3, 0;\n"
                "selp.u32 %r3, {0}, {1}, %p1;\n@%p30 mbarrier.arrive.expect_tx.shared::cta.b64 _, [mb], %r3;\n",
                kImage, kImage / 2) +
            kClusterBarrier;
    body += fmt::format(
        "setp.eq.and.u32 %p2, %r2, 3, %p30;\nsetp.eq.and.u32 %p3, %r2, 0, %p30;\nmov.u16 %h1, 5;\nmov.u16 %h2, 15;\n"
        "mov.u32 %r1, sm;\n"
        "@%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r1], [%b0], {0}, "
        "[mb], %h1;\n"
        "@%p3 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r1+{0}], "
        "[%b0+{0}], {0}, [mb], %h2;\n",
        kImage / 2);
    body += wait_text(0, 0, "w");
    body += fmt::format("mul.wide.u32 %d1, %r2, {};\nadd.u64 %d1, %b1, %d1;\n", kImage);
    body += copy_text(false, "%d1", 0, 0, kImage, kCopyThreads, "out") + kClusterBarrier;
    program.launches = {{.grid = 4, .block = kCopyThreads, .cluster = 4, .shared = kImage}};
    program.ptx = engine_module(program, body);
    programs.push_back(program);
}

}  // namespace

void add_bulk_copy_programs(Programs& programs) {
    add_global_to_shared(programs);
    add_shared_to_global(programs, "", Values::words);
    for (const std::string& operation : expand(
             ".<add.u32|add.s32|add.u64|min.u32|max.u32|min.s32|max.s32|min.u64|max.u64|min.s64|max.s64|inc.u32|dec.u32"
             "|and.b32|or.b32|xor.b32|and.b64|or.b64|xor.b64>"))
        add_shared_to_global(programs, operation, Values::words);
    add_shared_to_global(programs, ".add.f32", Values::f32);
    add_shared_to_global(programs, ".add.f32", Values::f32_tiny, ", around the least normal number");
    add_shared_to_global(programs, ".add.f64", Values::f64);
    for (const char* operation : {".add.noftz.f16", ".min.f16", ".max.f16"})
        add_shared_to_global(programs, operation, Values::f16);
    for (const char* operation : {".add.noftz.bf16", ".min.bf16", ".max.bf16"})
        add_shared_to_global(programs, operation, Values::bf16);
    add_shared_to_shared(programs, "");
    for (const std::string& operation :
         expand(".<add.u32|add.s32|add.u64|min.u32|max.s32|inc.u32|dec.u32|and.b32|xor.b32>"))
        add_shared_to_shared(programs, operation);
    add_multicast(programs);
}

}  // namespace nvfp4r::silicon
