#include "jit/sha256.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstring>

namespace nvfp4r {

namespace {

constexpr std::size_t kBlock = 64;

// Fractional parts of the cube roots of the first 64 primes (FIPS 180-4 section 4.2.2).
constexpr std::array<uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t big_endian_word(const unsigned char* p) {
    return uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | uint32_t{p[3]};
}

}  // namespace

void Sha256::block(const unsigned char* data) {
    std::array<uint32_t, 64> w;
    for (std::size_t i = 0; i < 16; ++i) w[i] = big_endian_word(data + 4 * i);
    for (std::size_t i = 16; i < 64; ++i) {
        const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
        const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, h] = state_;
    for (std::size_t i = 0; i < 64; ++i) {
        const uint32_t t1 =
            h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
        const uint32_t t2 = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    const std::array<uint32_t, 8> add = {a, b, c, d, e, f, g, h};
    for (std::size_t i = 0; i < 8; ++i) state_[i] += add[i];
}

Sha256& Sha256::update(std::string_view bytes) {
    auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
    std::size_t size = bytes.size();
    const std::size_t filled = length_ % kBlock;
    length_ += size;
    if (filled != 0) {
        const std::size_t take = std::min(size, kBlock - filled);
        std::memcpy(pending_.data() + filled, data, take);
        data += take, size -= take;
        if (filled + take < kBlock) return *this;
        block(pending_.data());
    }
    for (; size >= kBlock; data += kBlock, size -= kBlock) block(data);
    if (size != 0) std::memcpy(pending_.data(), data, size);
    return *this;
}

Sha256& Sha256::field(std::string_view bytes) {
    return update(fmt::format("{}:", bytes.size())).update(bytes);
}

std::string Sha256::hex() {
    const uint64_t bits = length_ * 8;
    std::string tail(1, '\x80');
    tail.append((kBlock + 55 - length_ % kBlock) % kBlock, '\0');  // up to 8 bytes before the end of a block
    for (int shift = 56; shift >= 0; shift -= 8) tail.push_back(static_cast<char>(bits >> shift & 0xff));
    update(tail);
    std::string text;
    for (const uint32_t word : state_) text += fmt::format("{:08x}", word);
    return text;
}

}  // namespace nvfp4r
