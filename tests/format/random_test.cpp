#include "format/random.hpp"

#include <catch2/catch.hpp>

using namespace nvfp4r;

TEST_CASE("Random is splitmix64: the reference implementation's first words for seed 0", "[format]") {
    Random random(0);
    REQUIRE(random.next() == 0xe220a8397b1dcdafu);
    REQUIRE(random.next() == 0x6e789e6aa1b965f4u);
    REQUIRE(random.next() == 0x06c45d188009454fu);
}

TEST_CASE("Random's normal numbers have mean 0 and variance 1", "[format]") {
    Random random(1);
    double sum = 0, squares = 0;
    constexpr int kCount = 200000;
    for (int i = 0; i < kCount; ++i) {
        const double v = static_cast<double>(random.gauss());
        sum += v;
        squares += v * v;
    }
    REQUIRE(sum / kCount == Approx(0.0).margin(0.01));
    REQUIRE(squares / kCount == Approx(1.0).margin(0.01));
}
