// TMA tile loads, stores and reductions (PTX ISA 9.7.9.27.1): 1 to 5 dimensions, every swizzle of sm_90, boxes inside,
// across and outside of the tensor, multicast in a cluster of two.
#include <algorithm>

#include "silicon/engine_text.hpp"

namespace nvfp4r::silicon {

namespace {

constexpr unsigned kTensorThreads = 128;

using Position = std::vector<int>;

struct Tensor {
    std::string name = {};
    CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_UINT32;
    size_t element = 4;  // bytes
    std::vector<cuuint64_t> dims = {};
    std::vector<cuuint32_t> box = {};
    CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
    std::vector<Position> positions = {};
    CUtensorMapFloatOOBfill fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
    std::vector<cuuint32_t> element_strides = {};
    Values values = Values::words;
    size_t offset = 0;  // of the image in shared memory

    size_t rows() const {
        size_t count = 1;
        for (size_t i = 1; i < box.size(); ++i) {
            const size_t step = i < element_strides.size() ? element_strides[i] : 1;
            count *= (box[i] + step - 1) / step;
        }
        return count;
    }
    size_t row_bytes() const { return box[0] * element; }
    size_t pitch() const {
        switch (swizzle) {
            case CU_TENSOR_MAP_SWIZZLE_32B: return 32;
            case CU_TENSOR_MAP_SWIZZLE_64B: return 64;
            case CU_TENSOR_MAP_SWIZZLE_128B: return 128;
            default: return row_bytes();
        }
    }
    size_t image_bytes() const { return (pitch() * rows() + 15) / 16 * 16; }
};

TensorMapSpec map_of(const Tensor& tensor) {
    TensorMapSpec map;
    map.type = tensor.type;
    map.dims = tensor.dims;
    map.box = tensor.box;
    map.element_strides = tensor.element_strides;
    map.swizzle = tensor.swizzle;
    map.fill = tensor.fill;
    // Rows do not touch: what lies between them may not appear in an image.
    cuuint64_t stride = (tensor.dims[0] * tensor.element + 15) / 16 * 16 + 16;
    for (size_t i = 1; i < tensor.dims.size(); ++i) {
        map.strides.push_back(stride);
        stride *= tensor.dims[i];
    }
    return map;
}

size_t tensor_bytes(const Tensor& tensor, const TensorMapSpec& map) {
    // A store may write the rest of the last 16 bytes.
    if (tensor.dims.size() == 1) return (tensor.dims[0] * tensor.element + 15) / 16 * 16;
    return map.strides.back() * tensor.dims.back();
}

std::string coordinates(const Position& position) {
    return fmt::format("{{{}}}", fmt::join(position, ", "));
}

// Each position in turn: shared memory holds a pattern, the box arrives, the image goes out.
void add_load(Programs& programs, const Tensor& tensor, uint64_t seed) {
    Program program;
    program.name = "TMA load " + tensor.name;
    program.maps = {map_of(tensor)};
    const size_t image = tensor.image_bytes() + tensor.offset + 16;
    Buffer out;
    out.bytes.resize(image * tensor.positions.size());
    out.output = true;
    program.buffers = {{random_bytes(tensor.values, tensor_bytes(tensor, program.maps[0]), seed)}, out};
    std::string body = init_text(0, 1);
    for (size_t i = 0; i < tensor.positions.size(); ++i) {
        const std::string tag = std::to_string(i);
        body += pattern_text(image, kTensorThreads, tag);
        body += fmt::format(
            "mov.u32 %r1, sm;\n@%p30 mbarrier.arrive.expect_tx.shared::cta.b64 _, [mb], {};\n"
            "@%p30 cp.async.bulk.tensor.{}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1+{}], "
            "[%m0, {}], [mb];\n",
            tensor.row_bytes() * tensor.rows(), tensor.dims.size(), tensor.offset, coordinates(tensor.positions[i]));
        body += wait_text(0, i % 2, tag);
        body += copy_text(false, "%b1", i * image, 0, image, kTensorThreads, "out" + tag);
    }
    program.launches = {{.block = kTensorThreads, .shared = static_cast<unsigned>(image)}};
    program.ptx = engine_module(program, body);
    programs.push_back(program);
}

// `operation`: "" stores, "add" and the like reduce.
void add_store(Programs& programs, const Tensor& tensor, const std::string& operation, uint64_t seed) {
    Program program;
    program.name = fmt::format("TMA {} {}", operation.empty() ? "store" : "reduce " + operation, tensor.name);
    program.maps = {map_of(tensor)};
    const size_t image = tensor.image_bytes() + tensor.offset;
    program.buffers = {{random_bytes(tensor.values, tensor_bytes(tensor, program.maps[0]), seed), true},
                       {random_bytes(tensor.values, image, seed + 1)}};
    std::string body = copy_text(true, "%b1", 0, 0, image, kTensorThreads, "in");
    body += "fence.proxy.async;\nbar.sync 0;\nsetp.eq.u32 %p1, %tid_x, 0;\nmov.u32 %r1, sm;\n";
    const std::string opcode = operation.empty() ? "cp.async.bulk.tensor" : "cp.reduce.async.bulk.tensor";
    for (const Position& position : tensor.positions) {
        body += fmt::format(
            "@%p1 {}.{}d.global.shared::cta{}.tile.bulk_group [%m0, {}], [%r1+{}];\n"
            "@%p1 cp.async.bulk.commit_group;\n@%p1 cp.async.bulk.wait_group 0;\n",
            opcode, tensor.dims.size(), operation.empty() ? "" : "." + operation, coordinates(position), tensor.offset);
    }
    program.launches = {{.block = kTensorThreads, .shared = static_cast<unsigned>(image)}};
    program.ptx = engine_module(program, body);
    programs.push_back(program);
}

// Both CTAs of a cluster load a box each and send it to both.
void add_multicast(Programs& programs, CUtensorMapSwizzle swizzle, cuuint32_t words, const std::string& name) {
    Tensor tensor{.dims = {64, 40}, .box = {words, 8}, .swizzle = swizzle};
    Program program;
    program.name = "TMA multicast " + name;
    program.maps = {map_of(tensor)};
    const size_t image = tensor.image_bytes();
    Buffer out;
    out.bytes.resize(image * 4);
    out.output = true;
    program.buffers = {{random_bytes(Values::words, tensor_bytes(tensor, program.maps[0]), 131)}, out};
    std::string body = init_text(0, 1) + pattern_text(2 * image, kTensorThreads, "p");
    body += fmt::format("@%p30 mbarrier.arrive.expect_tx.shared::cta.b64 _, [mb], {};\n", 2 * image) + kClusterBarrier;
    body += fmt::format(
        "mov.u32 %r2, %cluster_ctarank;\nmov.u32 %r1, sm;\nmad.lo.u32 %r1, %r2, {}, %r1;\nmul.lo.u32 %r3, %r2, 12;\n"
        "shl.b32 %r4, %r2, 5;\nmov.u16 %h1, 3;\n"
        "@%p30 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%r1], [%m0, {{%r4, %r3}}], [mb], %h1;\n",
        image);
    body += wait_text(0, 0, "w");
    body += fmt::format("mul.wide.u32 %d1, %r2, {};\nadd.u64 %d1, %b1, %d1;\n", 2 * image);
    body += copy_text(false, "%d1", 0, 0, 2 * image, kTensorThreads, "out") + kClusterBarrier;
    program.launches = {{.grid = 2, .block = kTensorThreads, .cluster = 2, .shared = static_cast<unsigned>(2 * image)}};
    program.ptx = engine_module(program, body);
    programs.push_back(program);
}

struct SwizzleName {
    CUtensorMapSwizzle swizzle;
    const char* name;
    cuuint32_t words;  // of the widest row
};
constexpr SwizzleName kSwizzles[] = {{CU_TENSOR_MAP_SWIZZLE_NONE, "unswizzled", 40},
                                     {CU_TENSOR_MAP_SWIZZLE_32B, "swizzle 32B", 8},
                                     {CU_TENSOR_MAP_SWIZZLE_64B, "swizzle 64B", 16},
                                     {CU_TENSOR_MAP_SWIZZLE_128B, "swizzle 128B", 32}};

// Inside, on every edge, on corners, and wholly outside.
const std::vector<Position> kAround = {{0, 0},   {4, 3},  {-4, -2}, {40, 17}, {44, 0},    {48, 5},   {0, 20},
                                       {-8, 19}, {0, 24}, {52, 0},  {-64, 0}, {100, 100}, {0, -100}, {16, 23}};

void add_swizzled(Programs& programs) {
    for (const SwizzleName& s : kSwizzles) {
        add_load(programs,
                 {.name = fmt::format("2-d {}", s.name),
                  .dims = {50, 24},
                  .box = {s.words, 8},
                  .swizzle = s.swizzle,
                  .positions = kAround},
                 101);
        // A row shorter than the swizzle's span leaves a gap in each row of the image; an image may start at any
        // multiple of 128 bytes.
        add_load(programs,
                 {.name = fmt::format("2-d {}, short rows", s.name),
                  .dims = {50, 24},
                  .box = {4, 16},
                  .swizzle = s.swizzle,
                  .positions = {{0, 0}, {48, 16}, {-4, -1}},
                  .offset = 384},
                 102);
        add_store(programs,
                  {.name = fmt::format("2-d {}", s.name),
                   .dims = {50, 24},
                   .box = {s.words, 8},
                   .swizzle = s.swizzle,
                   .positions = {{0, 0}, {4, 12}, {44, 20}, {48, 3}, {52, 3}, {0, 24}}},
                  "", 103);
        add_store(programs,
                  {.name = fmt::format("2-d {}", s.name),
                   .dims = {50, 24},
                   .box = {s.words, 8},
                   .swizzle = s.swizzle,
                   .positions = {{0, 0}, {4, 12}, {44, 20}},
                   .offset = 128},
                  "add", 104);
        add_multicast(programs, s.swizzle, s.words, s.name);
    }
}

void add_ranks(Programs& programs) {
    const std::vector<Tensor> tensors = {
        {.name = "1-d", .dims = {250}, .box = {64}, .positions = {{0}, {4}, {200}, {248}, {252}, {-16}, {-64}}},
        {.name = "3-d",
         .dims = {20, 7, 5},
         .box = {16, 4, 3},
         .positions = {{0, 0, 0}, {8, 5, 3}, {-4, -1, -2}, {16, 2, 4}, {0, 7, 0}}},
        {.name = "4-d",
         .dims = {12, 5, 4, 3},
         .box = {8, 3, 2, 2},
         .positions = {{0, 0, 0, 0}, {8, 3, 3, 2}, {-4, -1, 1, -1}, {4, 1, 4, 0}}},
        {.name = "5-d",
         .dims = {12, 4, 3, 3, 2},
         .box = {8, 2, 2, 2, 2},
         .positions = {{0, 0, 0, 0, 0}, {8, 3, 2, 2, 1}, {-4, -1, -1, 1, -1}, {4, 1, 1, 3, 0}}}};
    for (const Tensor& tensor : tensors) {
        add_load(programs, tensor, 105);
        Tensor swizzled = tensor;
        swizzled.name += " swizzle 64B";
        swizzled.swizzle = CU_TENSOR_MAP_SWIZZLE_64B;
        swizzled.box[0] = 16;
        add_load(programs, swizzled, 106);
        Tensor stored = tensor;
        std::erase_if(stored.positions,
                      [](const Position& p) { return std::any_of(p.begin(), p.end(), [](int c) { return c < 0; }); });
        add_store(programs, stored, "", 107);
        add_store(programs, stored, "xor", 108);
    }
}

void add_types(Programs& programs) {
    const std::vector<Position> positions = {{0, 0}, {16, 5}, {-16, -1}, {48, 3}};
    const auto load = [&](const char* name, CUtensorMapDataType type, size_t element, Values values,
                          CUtensorMapFloatOOBfill fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) {
        add_load(programs,
                 {.name = name,
                  .type = type,
                  .element = element,
                  .dims = {50, 8},
                  .box = {16, 4},
                  .positions = positions,
                  .fill = fill,
                  .values = values},
                 109);
    };
    const auto nan = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
    load("of u8", CU_TENSOR_MAP_DATA_TYPE_UINT8, 1, Values::words);
    load("of u16", CU_TENSOR_MAP_DATA_TYPE_UINT16, 2, Values::words);
    load("of s64", CU_TENSOR_MAP_DATA_TYPE_INT64, 8, Values::words);
    load("of f16, NaN outside", CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, Values::f16, nan);
    load("of bf16, NaN outside", CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, Values::bf16, nan);
    load("of f32, NaN outside", CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, Values::f32, nan);
    load("of f64, NaN outside", CU_TENSOR_MAP_DATA_TYPE_FLOAT64, 8, Values::f64, nan);
    load("of f32 ftz", CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ, 4, Values::f32);
    load("of tf32", CU_TENSOR_MAP_DATA_TYPE_TFLOAT32, 4, Values::f32);
    load("of tf32 ftz", CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ, 4, Values::f32);
    add_load(programs,
             {.name = "every third row",
              .dims = {20, 24},
              .box = {16, 8},
              .positions = {{0, 0}, {4, 5}, {-4, -2}, {8, 18}},
              .element_strides = {1, 3}},
             110);
}

void add_reductions(Programs& programs) {
    const auto reduce = [&](const char* operation, const char* name, CUtensorMapDataType type, size_t element,
                            Values values) {
        add_store(programs,
                  {.name = name,
                   .type = type,
                   .element = element,
                   .dims = {52, 24},
                   .box = {16, 8},
                   .positions = {{0, 0}, {16, 5}, {48, 20}},
                   .values = values},
                  operation, 111);
    };
    for (const char* operation : {"min", "max", "inc", "dec", "and", "or"})
        reduce(operation, "u32", CU_TENSOR_MAP_DATA_TYPE_UINT32, 4, Values::words);
    for (const char* operation : {"add", "min", "max"}) {
        reduce(operation, "s32", CU_TENSOR_MAP_DATA_TYPE_INT32, 4, Values::words);
        reduce(operation, "u64", CU_TENSOR_MAP_DATA_TYPE_UINT64, 8, Values::words);
        reduce(operation, "f16", CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, Values::f16);
        reduce(operation, "bf16", CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, Values::bf16);
    }
    for (const char* operation : {"min", "max"})
        reduce(operation, "s64", CU_TENSOR_MAP_DATA_TYPE_INT64, 8, Values::words);
    reduce("add", "f32", CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, Values::f32);
    reduce("add", "f32, around the least normal number", CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, Values::f32_tiny);
    reduce("add", "f64", CU_TENSOR_MAP_DATA_TYPE_FLOAT64, 8, Values::f64);
}

}  // namespace

void add_tensor_copy_programs(Programs& programs) {
    add_swizzled(programs);
    add_ranks(programs);
    add_types(programs);
    add_reductions(programs);
}

}  // namespace nvfp4r::silicon
