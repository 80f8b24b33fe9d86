// Tensor copies: shared-memory images, out-of-bounds boxes and byte counts as measured on an H200.
#include <catch2/catch.hpp>

#include "sim/engine_kernel.hpp"

using namespace nvfp4r::sim;
using namespace nvfp4r::sim::test;

namespace {

constexpr uint32_t kWindow = 8192;  // bytes of `sm` that are filled, loaded over and read back
constexpr uint8_t kUntouched = 0xee;

// A 2-D tensor of `type`-sized words whose word i holds i + 1, and a box of it.
struct Box {
    uint32_t type = 2, word = 4;
    uint64_t columns = 64, rows = 32;
    uint32_t box_columns = 16, box_rows = 8;
    uint32_t swizzle = 0, fill = 0;
    uint32_t row_stride = 1;  // element stride of dimension 1
    int32_t x = 0, y = 0;
    uint32_t offset = 0;  // of the image in `sm`
    uint32_t expect = 0;  // bytes; 0: the whole box

    uint32_t loaded_rows() const { return (box_rows + row_stride - 1) / row_stride; }
    uint32_t bytes() const { return loaded_rows() * box_columns * word; }
    uint64_t tensor_bytes() const { return columns * rows * word; }

    std::vector<uint8_t> tensor() const {
        std::vector<uint8_t> out(tensor_bytes());
        for (uint64_t i = 0; i < columns * rows; ++i)
            for (uint32_t b = 0; b < std::min(word, 4u); ++b)
                out[i * word + b] = static_cast<uint8_t>((i + 1) >> (8 * b));
        return out;
    }
    void add_map(EngineKernel& kernel, uint64_t address) const {
        const uint64_t dims[] = {columns, rows}, strides[] = {columns * word};
        const uint32_t box[] = {box_columns, box_rows}, steps[] = {1, row_stride};
        TensorMapRequest request;
        request.type = type;
        request.rank = 2;
        request.address = address;
        request.dims = dims;
        request.strides = strides;
        request.box = box;
        request.element_strides = steps;
        request.swizzle = swizzle;
        request.oob_fill = fill;
        kernel.map(request);
    }
};

std::string load_body(const Box& t, const std::string& fence = "fence.proxy.async;\n") {
    std::string text = copy_words(true, 0, kWindow / 4, 32, "in") + fence + "bar.sync 0;\n";
    text += fmt::format(
        "mov.u32 %r0, %tid.x;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 bra issued;\n"
        "mbarrier.init.shared::cta.b64 [mb], 1;\nfence.mbarrier_init.release.cluster;\n"
        "mov.b64 %rd0, map0;\ncvta.param.u64 %rd0, %rd0;\nmov.u32 %r1, {};\nmov.u32 %r2, {};\n"
        "mov.u32 %r3, sm;\nadd.u32 %r3, %r3, {};\nmov.u32 %r4, mb;\n"
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [mb], {};\n"
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r3], [%rd0, "
        "{{%r1, %r2}}], [%r4];\nissued:\nbar.sync 0;\n",
        t.x, t.y, t.offset, t.expect ? t.expect : t.bytes());
    return text + wait_barrier(0, 0, "load") + copy_words(false, 1, kWindow / 4, 32, "out");
}

// Runs the load and gives the window; `run` receives the verdict.
std::vector<uint8_t> load(const Box& t, GridResult& run, const std::string& fence = "fence.proxy.async;\n") {
    EngineKernel kernel(90, load_body(t, fence));
    const std::vector<uint8_t> filler(kWindow, kUntouched);
    const uint64_t out = kernel.buffer(std::vector<uint8_t>(kWindow), "out");
    kernel.argument(kernel.buffer(filler, "filler"));
    kernel.argument(out);
    t.add_map(kernel, kernel.buffer(t.tensor(), "tensor"));
    run = kernel.launch(32);
    return kernel.read<uint8_t>(out, kWindow);
}

// The measured image: rows `pitch` apart, 16-byte chunks XORed with absolute address bits 7 and up.
std::vector<uint8_t> expected_image(const Box& t) {
    std::vector<uint8_t> out(kWindow, kUntouched);
    const std::vector<uint8_t> tensor = t.tensor();
    const uint32_t spans[] = {0, 32, 64, 128};
    const uint32_t inner = t.box_columns * t.word, span = spans[t.swizzle], pitch = span ? span : inner;
    for (uint32_t r = 0; r < t.loaded_rows(); ++r)
        for (uint32_t c = 0; c < inner; ++c) {
            const int64_t row = int64_t{t.y} + r * t.row_stride, byte = int64_t{t.x} * t.word + c;
            const bool inside = row >= 0 && row < static_cast<int64_t>(t.rows) && byte >= 0 &&
                                byte < static_cast<int64_t>(t.columns * t.word);
            const uint32_t linear = kDynamicOffset + t.offset + r * pitch + c;
            const uint32_t at = span ? linear ^ (linear >> 7 & (span / 16 - 1)) << 4 : linear;
            uint8_t& to = out[at - kDynamicOffset];
            if (inside)
                to = tensor[static_cast<size_t>(row) * t.columns * t.word + static_cast<size_t>(byte)];
            else
                to = t.fill ? (c % 2 ? 0x7f : 0xf7) : 0;
        }
    return out;
}

void check_load(const Box& t) {
    GridResult run;
    const std::vector<uint8_t> image = load(t, run);
    CAPTURE(t.swizzle, t.offset, t.box_columns, t.x, t.y);
    INFO(run.finding.text);
    REQUIRE(run.ok);
    CHECK(image == expected_image(t));
}

FindingKind load_finding(const Box& t) {
    GridResult run;
    load(t, run);
    REQUIRE_FALSE(run.ok);
    return run.finding.kind;
}

// Stores the box from `sm`, dense, with `instruction`; gives the tensor.
std::vector<uint8_t> store(const Box& t, const std::string& instruction, GridResult& run,
                           const std::string& fence = "fence.proxy.async;\n") {
    std::string body = copy_words(true, 0, kWindow / 4, 32, "in") + fence + "bar.sync 0;\n";
    body += fmt::format(
        "mov.u32 %r0, %tid.x;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 bra issued;\nmov.b64 %rd0, map0;\n"
        "cvta.param.u64 %rd0, %rd0;\nmov.u32 %r1, {};\nmov.u32 %r2, {};\nmov.u32 %r3, sm;\n{} [%rd0, {{%r1, "
        "%r2}}], [%r3];\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nissued:\n",
        t.x, t.y, instruction);
    EngineKernel kernel(90, body);
    std::vector<uint32_t> values(kWindow / 4);
    for (uint32_t i = 0; i < values.size(); ++i) values[i] = 1000 * (i + 1);
    kernel.argument(kernel.buffer(values, "values"));
    const uint64_t tensor = kernel.buffer(t.tensor(), "tensor");
    t.add_map(kernel, tensor);
    run = kernel.launch(32);
    return kernel.read<uint8_t>(tensor, t.tensor_bytes());
}

constexpr const char* kStoreBox = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group";
constexpr const char* kAddBox = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group";

}  // namespace

TEST_CASE("TMA load: images of every swizzle, inner size and offset", "[sim]") {
    const uint32_t spans[] = {128, 32, 64, 128};
    for (uint32_t swizzle = 0; swizzle < 4; ++swizzle)
        for (uint32_t inner = 16; inner <= spans[swizzle]; inner *= 2)
            for (const uint32_t offset : {0u, 128u, 384u, 896u}) {
                Box t;
                t.swizzle = swizzle;
                t.box_columns = inner / 4;
                t.box_rows = 16;
                t.offset = offset;
                check_load(t);
            }
}

TEST_CASE("TMA load: elements outside the tensor are zero, or NaN, and count all the same", "[sim]") {
    for (const auto& [x, y] : {std::pair<int32_t, int32_t>{-4, -2},
                               {-16, 0},
                               {0, -8},
                               {0, 28},
                               {56, 0},
                               {60, 30},
                               {64, 0},
                               {0, 32},
                               {-100, 5},
                               {100, 100},
                               {INT32_MIN, 0}}) {
        Box t;
        t.x = x;
        t.y = y;
        check_load(t);
        t.swizzle = 2;
        check_load(t);
    }
    Box nan;  // f16
    nan.type = 6;
    nan.word = 2;
    nan.fill = 1;
    nan.x = 56;
    check_load(nan);
    Box narrow;  // clipped inside 16 bytes
    narrow.columns = 20;
    narrow.x = 12;
    check_load(narrow);
}

TEST_CASE("TMA load: an outer element stride packs the rows it takes", "[sim]") {
    for (const uint32_t stride : {2u, 3u}) {
        Box t;
        t.row_stride = stride;
        check_load(t);
    }
}

TEST_CASE("TMA load: what hardware faults on", "[sim]") {
    Box t;
    for (const int32_t x : {1, 2, 3, 5, -1}) {
        t.x = x;
        CHECK(load_finding(t) == FindingKind::illegal_instruction);
    }
    t.x = 0;
    for (const uint32_t offset : {16u, 32u, 64u}) {
        t.offset = offset;
        CHECK(load_finding(t) == FindingKind::misaligned);
    }
}

TEST_CASE("C26 expect_tx that does not match the box", "[sim]") {
    Box t;
    t.expect = t.bytes() + 16;
    CHECK(load_finding(t) == FindingKind::deadlock);
}

TEST_CASE("C28 TMA over generic writes without fence.proxy.async", "[sim]") {
    GridResult run;
    store({}, kStoreBox, run, "");
    REQUIRE_FALSE(run.ok);
    CHECK(run.finding.kind == FindingKind::proxy_race);
}

TEST_CASE("TMA store and reduction: elements past the end are skipped", "[sim]") {
    Box t;
    t.columns = 20;
    t.rows = 10;
    t.x = 12;
    t.y = 7;
    for (const bool add : {false, true}) {
        GridResult run;
        const std::vector<uint8_t> got = store(t, add ? kAddBox : kStoreBox, run);
        INFO(run.finding.text);
        REQUIRE(run.ok);
        std::vector<uint8_t> want = t.tensor();
        uint32_t changed = 0;
        for (uint32_t r = 0; r < t.box_rows; ++r)
            for (uint32_t c = 0; c < t.box_columns; ++c) {
                if (t.y + r >= t.rows || t.x + c >= t.columns) continue;
                const size_t at = ((static_cast<uint32_t>(t.y) + r) * t.columns + static_cast<uint32_t>(t.x) + c) * 4;
                uint32_t old;
                std::memcpy(&old, &want[at], 4);
                const uint32_t value = 1000 * (r * t.box_columns + c + 1) + (add ? old : 0);
                std::memcpy(&want[at], &value, 4);
                ++changed;
            }
        CHECK(changed == 24);
        CHECK(got == want);
    }
    t.x = -4;
    t.y = -2;
    GridResult run;
    store(t, kStoreBox, run);
    REQUIRE_FALSE(run.ok);
    CHECK(run.finding.kind == FindingKind::illegal_instruction);
}
