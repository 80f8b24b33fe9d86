// mbarrier (PTX ISA 9.7.13.15): random legal sequences of operations by one thread, with what every wait and every token
// says after each; and a ring of stages between producers and consumers.
#include "silicon/engine_text.hpp"

namespace nvfp4r::silicon {

namespace {

// What a sequence must know to stay legal: arriving more than pending, or beyond the tx range, faults on hardware.
struct Counts {
    int expected = 1, pending = 1, tx = 0;
    void settle() {
        if (pending == 0 && tx == 0) pending = expected;
    }
};

constexpr int kMaxTx = 1000;

// One operation; a token of an arrive goes to %d10.
std::string operation(Counts& counts, Random& random) {
    const int count = 1 + static_cast<int>(random.below(3)), bytes = 1 + static_cast<int>(random.below(kMaxTx));
    const int due = counts.tx;
    std::string text;
    switch (random.below(7)) {
        case 0:
            if (counts.pending < count) break;
            counts.pending -= count;
            text = fmt::format("mbarrier.arrive.shared::cta.b64 %d10, [mb], {};\n", count);
            break;
        case 1:
            if (counts.tx + bytes > kMaxTx) break;
            counts.tx += bytes;
            text = fmt::format("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [mb], {};\n", bytes);
            break;
        case 2:
            if (counts.tx - bytes < -kMaxTx) break;
            counts.tx -= bytes;
            text = fmt::format("mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [mb], {};\n", bytes);
            break;
        case 3:
            if (due <= 0) break;
            counts.tx = 0;
            text = fmt::format("mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [mb], {};\n", due);
            break;
        case 4:
            if (counts.pending < 1 || counts.tx + bytes > kMaxTx) break;
            counts.tx += bytes;
            counts.pending -= 1;
            text = fmt::format("mbarrier.arrive.expect_tx.shared::cta.b64 %d10, [mb], {};\n", bytes);
            break;
        case 5:
            if (counts.pending < 1 || counts.expected < 2 || random.below(4) != 0) break;
            counts.expected -= 1;
            counts.pending -= 1;
            text = "mbarrier.arrive_drop.shared::cta.b64 %d10, [mb];\n";
            break;
        default:
            if (counts.pending < 2) break;
            counts.pending -= 1;
            text = "mbarrier.arrive.noComplete.release.cta.shared::cta.b64 %d10, [mb], 1;\n";
            break;
    }
    counts.settle();
    return text;
}

void add_sequences(Programs& programs) {
    constexpr unsigned kSequences = 12, kOperations = 40;
    for (unsigned sequence = 0; sequence < kSequences; ++sequence) {
        Random random(300 + sequence);
        Program program;
        program.name = fmt::format("mbarrier sequence {}", sequence);
        Counts counts;
        counts.expected = counts.pending = 1 + static_cast<int>(random.below(6));
        std::string body = fmt::format("mbarrier.init.shared::cta.b64 [mb], {};\n", counts.pending);
        bool token = false;
        unsigned records = 0;
        for (unsigned i = 0; i < kOperations; ++i) {
            const std::string text = operation(counts, random);
            if (text.empty()) continue;
            token |= text.find("%d10") != std::string::npos;
            body += text;
            // Bits 0 and 1: the parities that have completed; bit 2: the token's phase has; then its pending count.
            body +=
                "mbarrier.test_wait.parity.shared::cta.b64 %p1, [mb], 0;\nselp.u32 %r1, 1, 0, %p1;\n"
                "mbarrier.test_wait.parity.shared::cta.b64 %p1, [mb], 1;\n@%p1 or.b32 %r1, %r1, 2;\n";
            if (token) {
                body +=
                    "mbarrier.test_wait.shared::cta.b64 %p1, [mb], %d10;\n@%p1 or.b32 %r1, %r1, 4;\n"
                    "mbarrier.pending_count.b64 %r2, %d10;\nshl.b32 %r2, %r2, 4;\nor.b32 %r1, %r1, %r2;\n";
            }
            body += fmt::format("st.global.b32 [%b0+{}], %r1;\n", 4 * records++);
        }
        Buffer out;
        out.bytes.resize(4 * records);
        out.output = true;
        program.buffers = {out};
        program.launches = {{.block = 1}};
        program.ptx = engine_module(program, body);
        programs.push_back(program);
    }
}

// Two producer warps fill a stage of two slots each, two consumer warps read it and free it.
void add_ring(Programs& programs) {
    constexpr unsigned kStages = 2, kRounds = 9, kSlots = 64;
    Program program;
    program.name = "mbarrier ring";
    Buffer out;
    out.bytes.resize(kRounds * kSlots * 4);
    out.output = true;
    program.buffers = {{random_bytes(Values::words, kRounds * kSlots * 4, 320)}, out};
    std::string body;
    for (unsigned stage = 0; stage < kStages; ++stage) body += init_text(stage * 8, 64) + init_text(64 + stage * 8, 2);
    body +=
        "setp.ge.u32 %p1, %tid_x, 64;\nand.b32 %r1, %tid_x, 63;\nshl.b32 %r2, %r1, 2;\ncvt.u64.u32 %d1, %r2;\n"
        "add.u64 %d2, %b0, %d1;\nadd.u64 %d3, %b1, %d1;\nmov.u32 %r3, sm;\nadd.u32 %r3, %r3, %r2;\n"
        "xor.b32 %r8, %r2, 4;\nmov.u32 %r9, sm;\nadd.u32 %r9, %r9, %r8;\nand.b32 %r7, %tid_x, 31;\n"
        "setp.eq.u32 %p2, %r7, 0;\n@%p1 bra consume;\n";
    for (unsigned round = 0; round < kRounds; ++round) {
        const unsigned stage = round % kStages, parity = round / kStages % 2;
        body += wait_text(64 + stage * 8, parity ^ 1, fmt::format("empty{}", round));
        body += fmt::format(
            "ld.global.b32 %r5, [%d2+{}];\nst.shared.b32 [%r3+{}], %r5;\n"
            "mbarrier.arrive.shared::cta.b64 _, [mb+{}];\n",
            round * kSlots * 4, stage * kSlots * 4, stage * 8);
    }
    body += "bra finish;\nconsume:\n";
    for (unsigned round = 0; round < kRounds; ++round) {
        const unsigned stage = round % kStages, parity = round / kStages % 2;
        body += wait_text(stage * 8, parity, fmt::format("full{}", round));
        body += fmt::format(
            "ld.shared.b32 %r5, [%r9+{0}];\nld.shared.b32 %r6, [%r3+{0}];\nmad.lo.u32 %r5, %r5, 3, %r6;\n"
            "st.global.b32 [%d3+{1}], %r5;\nbar.warp.sync -1;\n@%p2 mbarrier.arrive.shared::cta.b64 _, [mb+{2}];\n",
            stage * kSlots * 4, round * kSlots * 4, 64 + stage * 8);
    }
    body += "finish:\n";
    program.launches = {{.block = 128, .shared = kStages * kSlots * 4}};
    program.ptx = engine_module(program, body);
    programs.push_back(program);
}

// cp.async.mbarrier.arrive: the barrier completes when the copies have.
void add_copy_arrivals(Programs& programs) {
    for (const bool extra : {false, true}) {
        Program program;
        program.name = extra ? "cp.async arrivals" : "cp.async arrivals without increment";
        Buffer out;
        out.bytes.resize(2048);
        out.output = true;
        program.buffers = {{random_bytes(Values::words, 2048, 321)}, out};
        // Without .noinc the pending count rises first, so the thread's own arrive is what the count waits for.
        std::string body = init_text(0, 128);
        body += fmt::format(
            "shl.b32 %r1, %tid_x, 4;\nmov.u32 %r2, sm;\nadd.u32 %r2, %r2, %r1;\ncvt.u64.u32 %d1, %r1;\n"
            "add.u64 %d2, %b0, %d1;\ncp.async.cg.shared.global [%r2], [%d2], 16;\n"
            "cp.async.mbarrier.arrive{}.shared::cta.b64 [mb];\n{}",
            extra ? "" : ".noinc", extra ? "mbarrier.arrive.shared::cta.b64 _, [mb];\n" : "");
        body += wait_text(0, 0, "w") + copy_text(false, "%b1", 0, 0, 2048, 128, "out");
        program.launches = {{.block = 128, .shared = 2048}};
        program.ptx = engine_module(program, body);
        programs.push_back(program);
    }
}

}  // namespace

void add_mbarrier_programs(Programs& programs) {
    add_sequences(programs);
    add_ring(programs);
    add_copy_arrivals(programs);
}

}  // namespace nvfp4r::silicon
