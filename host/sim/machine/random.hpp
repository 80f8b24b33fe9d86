// The scheduler's random numbers: the same on every machine for the same seed.
#pragma once

#include <cstdint>

namespace nvfp4r::sim {

/// splitmix64 (Steele, Lea, Flood 2014).
class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed) {}
    uint64_t next() {
        uint64_t z = state_ += 0x9e3779b97f4a7c15ull;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ z >> 27) * 0x94d049bb133111ebull;
        return z ^ z >> 31;
    }
    /// 0 .. n - 1. The bias of the remainder does not matter here.
    uint64_t below(uint64_t n) { return next() % n; }

  private:
    uint64_t state_;
};

}  // namespace nvfp4r::sim
