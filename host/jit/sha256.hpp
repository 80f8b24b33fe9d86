// SHA-256 (FIPS 180-4): names cache entries by their content and finds damaged ones.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace nvfp4r {

class Sha256 {
  public:
    Sha256& update(std::string_view bytes);
    /// Appends the length and then the bytes, so that two fields never run into each other.
    Sha256& field(std::string_view bytes);
    /// 64 lower-case hex digits. Ends the computation.
    std::string hex();

  private:
    void block(const unsigned char* data);

    std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    std::array<unsigned char, 64> pending_ = {};
    uint64_t length_ = 0;
};

}  // namespace nvfp4r
