#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>

#include "driver/driver_api.hpp"

using namespace nvfp4r;
using Catch::Matchers::Contains;

namespace {

/// A driver library of which a test sets the answers.
struct FakeDriver {
    CUresult init = CUDA_SUCCESS;
    int version = 13000;
    std::string missing;  // this entry is not found
    std::map<std::string, int> asked;
};
FakeDriver fake;

CUresult fake_init(unsigned) {
    return fake.init;
}
CUresult fake_version(int* version) {
    *version = fake.version;
    return CUDA_SUCCESS;
}
CUresult fake_error_name(CUresult error, const char** name) {
    if (error == 950) return CUDA_ERROR_INVALID_VALUE;
    *name = error == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_SOMETHING";
    return CUDA_SUCCESS;
}
CUresult fake_error_string(CUresult error, const char** text) {
    if (error == 950) return CUDA_ERROR_INVALID_VALUE;
    *text = error == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : "something";
    return CUDA_SUCCESS;
}
void* fake_address(const char* name) {
    if (std::strcmp(name, "cuInit") == 0) return reinterpret_cast<void*>(fake_init);
    if (std::strcmp(name, "cuDriverGetVersion") == 0) return reinterpret_cast<void*>(fake_version);
    if (std::strcmp(name, "cuGetErrorName") == 0) return reinterpret_cast<void*>(fake_error_name);
    if (std::strcmp(name, "cuGetErrorString") == 0) return reinterpret_cast<void*>(fake_error_string);
    return reinterpret_cast<void*>(fake_init);  // never called by these tests
}
CUresult fake_get_proc_address(const char* name, void** address, int version, cuuint64_t,
                               CUdriverProcAddressQueryResult* found) {
    ++fake.asked[name];
    if (name == fake.missing || version > fake.version) {
        *found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
        *address = nullptr;
        return CUDA_ERROR_NOT_FOUND;
    }
    *address = fake_address(name);
    return CUDA_SUCCESS;
}
void* fake_symbol(const char* name) {
    if (std::strcmp(name, "cuGetProcAddress_v2") == 0) return reinterpret_cast<void*>(fake_get_proc_address);
    return fake_address(name);
}

}  // namespace

TEST_CASE("C52 a missing driver library is named with the remedy", "[driver]") {
    CHECK_THROWS_WITH(open_driver("/nowhere/libcuda.so.1"),
                      Contains("/nowhere/libcuda.so.1") && Contains("no CUDA driver") && Contains("cpu or sim"));
    try {
        open_driver("/nowhere/libcuda.so.1");
    } catch (const Error& error) {
        CHECK(error.status() == NVFP4R_NO_DEVICE);
    }
}

TEST_CASE("C52 the toolkit's stub is told apart from a missing driver", "[driver]") {
    SECTION("by its error") {
        fake = {};
        fake.init = CUDA_ERROR_STUB_LIBRARY;
        CHECK_THROWS_WITH(bind_driver(fake_symbol, "fake"), Contains("stub") && Contains("LD_LIBRARY_PATH"));
    }
    const std::string stub = "/usr/local/cuda/lib64/stubs/libcuda.so";
    if (std::filesystem::exists(stub)) {
        SECTION("the real one") {
            CHECK_THROWS_WITH(open_driver(stub), Contains(stub) && Contains("link-time stub"));
        }
    }
}

TEST_CASE("C52 a library that is no driver is refused", "[driver]") {
    CHECK_THROWS_WITH(open_driver("libz.so.1"), Contains("libz.so.1") && Contains("not a CUDA driver"));
}

TEST_CASE("C44 a driver older than CUDA 12.0 is refused with both versions", "[driver]") {
    fake = {};
    fake.version = 11080;
    CHECK_THROWS_WITH(bind_driver(fake_symbol, "fake"), Contains("11.8") && Contains("12.0") && Contains("update"));
}

TEST_CASE("C55 the first failing call is reported with its own error", "[driver]") {
    fake = {};
    fake.init = CUDA_ERROR_NO_DEVICE;
    CHECK_THROWS_WITH(bind_driver(fake_symbol, "fake"),
                      Contains("cuInit") && Contains("(100)") && Contains("CUDA_VISIBLE_DEVICES"));
    fake.init = CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
    CHECK_THROWS_WITH(bind_driver(fake_symbol, "fake"), Contains("cuInit") && Contains("(803)") && Contains("reboot"));
}

TEST_CASE("every entry is asked for once by its plain name", "[driver]") {
    fake = {};
    const DriverApi api = bind_driver(fake_symbol, "fake");
    CHECK(api.version == 13000);
    CHECK(api.origin == "fake");
    std::size_t entries = 0;
#define NVFP4R_CHECK_ENTRY(name)   \
    CHECK(api.name != nullptr);    \
    CHECK(fake.asked[#name] == 1); \
    ++entries;
    NVFP4R_DRIVER_ENTRIES(NVFP4R_CHECK_ENTRY)
#undef NVFP4R_CHECK_ENTRY
    CHECK(api.create_context != nullptr);
    CHECK(fake.asked.size() == entries + 1);
    CHECK(fake.asked.count("cuMemAlloc") == 1);  // not cuMemAlloc_v2: the version argument chooses the form
}

TEST_CASE("an entry that the driver lacks is named", "[driver]") {
    fake = {};
    fake.missing = "cuTensorMapEncodeTiled";
    CHECK_THROWS_WITH(bind_driver(fake_symbol, "fake"), Contains("cuTensorMapEncodeTiled") && Contains("13.0"));
}

TEST_CASE("check names the call, the detail, the error and its text", "[driver]") {
    fake = {};
    const DriverApi api = bind_driver(fake_symbol, "fake");
    CHECK_NOTHROW(check(api, CUDA_SUCCESS, "cuMemAlloc"));
    CHECK_THROWS_WITH(check(api, CUDA_ERROR_OUT_OF_MEMORY, "cuMemAlloc"),
                      "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory");
    CHECK_THROWS_WITH(check(api, CUDA_ERROR_OUT_OF_MEMORY, "cuMemAlloc", "{} bytes", 4096),
                      "cuMemAlloc (4096 bytes): CUDA_ERROR_OUT_OF_MEMORY (2): out of memory");
    CHECK_THROWS_WITH(check(api, static_cast<CUresult>(950), "cuInit"), Contains("unknown CUresult (950)"));
    CHECK_THROWS_WITH(check(api, CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "cuModuleLoadData"),
                      Contains("13.0") && Contains("cubin"));
    try {
        check(api, CUDA_ERROR_OUT_OF_MEMORY, "cuMemAlloc");
    } catch (const Error& error) {
        CHECK(error.status() == NVFP4R_OUT_OF_MEMORY);
    }
}

TEST_CASE("C52 NVFP4R_LIBCUDA chooses the driver library, and a failure is not remembered", "[driver]") {
    const char* before = std::getenv("NVFP4R_LIBCUDA");
    const std::string saved = before != nullptr ? before : "";
    setenv("NVFP4R_LIBCUDA", "/nowhere/first.so", 1);
    bool opened = false;
    try {
        cuda_driver();
        opened = true;  // an earlier test opened a real driver, which stays
    } catch (const Error& error) {
        CHECK_THAT(error.what(), Contains("/nowhere/first.so"));
    }
    if (!opened) {
        setenv("NVFP4R_LIBCUDA", "/nowhere/second.so", 1);
        CHECK_THROWS_WITH(cuda_driver(), Contains("/nowhere/second.so"));
    }
    if (saved.empty()) {
        unsetenv("NVFP4R_LIBCUDA");
    } else {
        setenv("NVFP4R_LIBCUDA", saved.c_str(), 1);
    }
}
