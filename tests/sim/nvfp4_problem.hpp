// Random NVFP4 operands in the layouts that kernels load, the product by the chain of K steps, and maps of byte matrices.
#pragma once

#include <catch2/catch.hpp>

#include "arith/mxf4nvf4.hpp"
#include "sim/engine/tensor_map.hpp"
#include "sim/machine/gpu.hpp"

namespace nvfp4r::sim::test {

/// `count` bytes below `limit`.
inline std::vector<uint8_t> random_bytes(size_t count, uint32_t seed, uint32_t limit) {
    std::vector<uint8_t> out(count);
    for (uint8_t& byte : out) {
        seed = seed * 1664525u + 1013904223u;
        byte = static_cast<uint8_t>((seed >> 24) % limit);
    }
    return out;
}

/// D (m x n) = A (m x 64 steps) * B (n x 64 steps)^T. Codes row-major; factors in atoms of 512 bytes, one for 128 rows
/// and one step: those of A tile of rows after tile, those of B for n <= 32.
struct Nvfp4Problem {
    static constexpr uint32_t kStepBytes = 32, kAtom = 512, kTileRows = 128, kNanFactor = 0x7f;

    uint32_t m, n, steps;
    std::vector<uint8_t> a = random_bytes(size_t{m} * steps * kStepBytes, 1, 256);
    std::vector<uint8_t> b = random_bytes(size_t{n} * steps * kStepBytes, 2, 256);
    std::vector<uint8_t> factors_a = random_bytes(size_t{m} / kTileRows * steps * kAtom, 3, kNanFactor);
    std::vector<uint8_t> factors_b = random_bytes(size_t{steps} * kAtom, 4, kNanFactor);

    uint32_t element(uint32_t row, uint32_t column) const {
        uint32_t sum = 0;
        for (uint32_t step = 0; step < steps; ++step) {
            const uint32_t r = row % kTileRows;
            const uint8_t* fa = &factors_a[(row / kTileRows * steps + step) * kAtom + r % 32 * 16 + r / 32 * 4];
            const uint8_t* fb = &factors_b[step * kAtom + column * 16];
            sum = arith::mxf4nvf4_step(arith::mxf4_decode(&a[(row * steps + step) * kStepBytes], fa),
                                       arith::mxf4_decode(&b[(column * steps + step) * kStepBytes], fb), sum);
        }
        return sum;
    }
    std::vector<uint32_t> result() const {
        std::vector<uint32_t> out;
        for (uint32_t row = 0; row < m; ++row)
            for (uint32_t column = 0; column < n; ++column) out.push_back(element(row, column));
        return out;
    }
};

/// The next parameter of the launch: a map of `rows` rows of bytes, fetched in boxes of 128 bytes by `box_rows` rows.
inline void append_byte_map(GridLaunch& launch, uint32_t sm, uint64_t address, uint32_t row_bytes, uint32_t rows,
                            uint32_t box_rows, TensorSwizzle swizzle) {
    constexpr uint32_t kBoxBytes = 128;
    constexpr size_t kMapAlign = 64;
    const uint64_t dims[] = {row_bytes, rows}, strides[] = {row_bytes};
    const uint32_t box[] = {kBoxBytes, box_rows}, steps[] = {1, 1};
    TensorMapRequest request;
    request.type = static_cast<uint32_t>(TensorType::u8);
    request.rank = 2;
    request.address = address;
    request.dims = dims;
    request.strides = strides;
    request.box = box;
    request.element_strides = steps;
    request.swizzle = static_cast<uint32_t>(swizzle);
    TensorMap map{};
    REQUIRE(encode_tensor_map(request, sm, map).empty());
    launch.params.resize((launch.params.size() + kMapAlign - 1) / kMapAlign * kMapAlign);
    const auto* bytes = reinterpret_cast<const uint8_t*>(&map);
    launch.params.insert(launch.params.end(), bytes, bytes + sizeof(map));
}

}  // namespace nvfp4r::sim::test
