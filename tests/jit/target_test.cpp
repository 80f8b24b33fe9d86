#include "jit/target.hpp"

#include <catch2/catch.hpp>

#include "core/error.hpp"

using namespace nvfp4r;
using Catch::Matchers::Contains;

TEST_CASE("C38 C40 C41 the target follows the compute capability, others are refused by name", "[jit]") {
    struct Case {
        int major, minor;
        const char* arch;
        KernelFamily family;
    };
    for (const Case& c :
         {Case{9, 0, "sm_90a", KernelFamily::kWgmma}, Case{10, 0, "sm_100a", KernelFamily::kTcgen05},
          Case{10, 3, "sm_103a", KernelFamily::kTcgen05}, Case{11, 0, "sm_110a", KernelFamily::kTcgen05}}) {
        const Target target = target_for(c.major, c.minor);
        CHECK(target.arch == c.arch);
        CHECK(target.family == c.family);
        CHECK(target_named(c.arch).arch == c.arch);
        CHECK(target_named(std::string(c.arch).substr(3)).family == c.family);
    }
    CHECK_THROWS_WITH(target_for(12, 0), Contains("12.0") && Contains("no tcgen05"));
    CHECK_THROWS_WITH(target_for(12, 1), Contains("12.1") && Contains("no tcgen05"));
    CHECK_THROWS_WITH(target_for(8, 9), Contains("8.9") && Contains("no FP4"));
    CHECK_THROWS_WITH(target_for(10, 7), Contains("10.7") && Contains("9.0, 10.0, 10.3 and 11.0"));
    CHECK_THROWS_WITH(target_named("sm_120a"), Contains("sm_120a") && Contains("103a"));
}
