// Random numbers that are the same on every machine: integer arithmetic and exact float steps only.
#pragma once

#include <cstdint>

namespace nvfp4r {

/// splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014).
class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed) {}
    /// A stream of its own for a named part, so that one part's length does not shift another's numbers.
    Random(uint64_t seed, uint64_t part) : state_(Random(seed ^ Random(part).next()).next()) {}

    uint64_t next() {
        uint64_t z = state_ += 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
    uint64_t below(uint64_t bound) { return next() % bound; }
    /// [0, 1), a multiple of 2^-24.
    float uniform() { return static_cast<float>(next() >> 40) * 0x1p-24f; }
    /// Nearly normal, mean 0, variance 1, within +-6: the sum of twelve 16-bit uniforms needs no libm.
    float gauss() {
        constexpr int64_t kMean = 12 * 65535 / 2;
        int64_t sum = 0;
        for (int word = 0; word < 3; ++word) {
            const uint64_t bits = next();
            for (int shift = 0; shift < 64; shift += 16) sum += static_cast<int64_t>((bits >> shift) & 0xffffu);
        }
        return static_cast<float>(sum - kMean) * 0x1p-16f;
    }

  private:
    uint64_t state_;
};

}  // namespace nvfp4r
