#include <numeric>

#include "driver_session.hpp"

using namespace nvfp4r;
using namespace nvfp4r::test;
using Catch::Matchers::Contains;

TEST_CASE("copies and fills move the bytes they name", "[sim][driver]") {
    const SimSession session;
    const DriverApi& api = session.api;
    std::vector<uint8_t> in(256), out(256);
    std::iota(in.begin(), in.end(), uint8_t{0});
    CUdeviceptr a = 0, b = 0;
    session.ok(api.cuMemAlloc(&a, 256));
    session.ok(api.cuMemAlloc(&b, 256));
    CHECK(a % 256 == 0);
    session.ok(api.cuMemcpyHtoD(a, in.data(), 256));
    session.ok(api.cuMemcpyDtoD(b + 16, a, 240));
    session.ok(api.cuMemsetD8(b, 0xee, 16));
    session.ok(api.cuMemcpyDtoH(out.data(), b, 256));
    for (size_t i = 0; i < 256; ++i) CHECK(out[i] == (i < 16 ? 0xee : i - 16));
    session.ok(api.cuMemsetD16(a + 2, 0x1234, 3));
    session.ok(api.cuMemsetD32(a + 8, 0xdeadbeef, 1));
    session.ok(api.cuMemcpyDtoH(out.data(), a, 16));
    const std::vector<uint8_t> expected = {0,    1,    0x34, 0x12, 0x34, 0x12, 0x34, 0x12,
                                           0xef, 0xbe, 0xad, 0xde, 12,   13,   14,   15};
    CHECK(std::vector<uint8_t>(out.begin(), out.begin() + 16) == expected);
    // A block of 3 rows of 4 bytes out of rows of 16 into rows of 8.
    session.ok(api.cuMemcpyHtoD(a, in.data(), 256));
    session.ok(api.cuMemsetD8(b, 0, 256));
    CUDA_MEMCPY2D plane = {};
    plane.srcMemoryType = plane.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    plane.srcDevice = a;
    plane.srcXInBytes = 2;
    plane.srcY = 1;
    plane.srcPitch = 16;
    plane.dstDevice = b;
    plane.dstPitch = 8;
    plane.WidthInBytes = 4;
    plane.Height = 3;
    session.ok(api.cuMemcpy2D(&plane));
    session.ok(api.cuMemcpyDtoH(out.data(), b, 24));
    for (size_t row = 0; row < 3; ++row) {
        for (size_t column = 0; column < 8; ++column)
            CHECK(out[row * 8 + column] == (column < 4 ? (row + 1) * 16 + 2 + column : 0));
    }
}

TEST_CASE("ranges out of an allocation are refused with its name", "[sim][driver]") {
    const SimSession session;
    const DriverApi& api = session.api;
    CUdeviceptr a = 0;
    session.ok(api.cuMemAlloc(&a, 100));
    std::vector<uint8_t> host(256);
    CHECK(api.cuMemcpyHtoD(a, host.data(), 101) == CUDA_ERROR_INVALID_VALUE);
    CHECK_THAT(sim::driver::last_report(),
               Contains("cuMemcpyHtoD") && Contains("101 bytes") && Contains("cuMemAlloc #") && Contains("100"));
    CHECK(api.cuMemcpyDtoH(host.data(), a + 60, 41) == CUDA_ERROR_INVALID_VALUE);
    CHECK(api.cuMemcpyDtoH(host.data(), a + 60, 40) == CUDA_SUCCESS);
    CHECK(api.cuMemcpyHtoD(a - 1, host.data(), 1) == CUDA_ERROR_INVALID_VALUE);
    CHECK(api.cuMemcpyHtoD(0, host.data(), 1) == CUDA_ERROR_INVALID_VALUE);
    CHECK(api.cuMemsetD8(a, 0, 101) == CUDA_ERROR_INVALID_VALUE);
    CHECK(api.cuMemsetD32(a + 2, 0, 1) == CUDA_ERROR_INVALID_VALUE);
    CHECK(api.cuMemFree(a + 4) == CUDA_ERROR_INVALID_VALUE);
    CHECK(api.cuMemFree(a) == CUDA_SUCCESS);
    CHECK(api.cuMemFree(a) == CUDA_ERROR_INVALID_VALUE);
    CHECK(api.cuMemFree(0) == CUDA_SUCCESS);
    CHECK(api.cuMemcpyHtoD(a, host.data(), 1) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("allocation follows the size of the GPU that is played", "[sim][driver]") {
    const SimSession session;
    const DriverApi& api = session.api;
    size_t free_before = 0, free_after = 0, total = 0, whole = 0;
    session.ok(api.cuMemGetInfo(&free_before, &total));
    session.ok(api.cuDeviceTotalMem(&whole, 0));
    CHECK(total == whole);
    CHECK(free_before == total);
    CUdeviceptr a = 0;
    CHECK(api.cuMemAlloc(&a, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(api.cuMemAlloc(&a, total + 1) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(api.cuMemAlloc(&a, ~size_t{0}) == CUDA_ERROR_OUT_OF_MEMORY);
    session.ok(api.cuMemAlloc(&a, 1 << 20));
    session.ok(api.cuMemGetInfo(&free_after, &total));
    CHECK(free_before - free_after == 1 << 20);
    CUdeviceptr base = 0;
    size_t bytes = 0;
    session.ok(api.cuMemGetAddressRange(&base, &bytes, a + 5));
    CHECK(base == a);
    CHECK(bytes == 1 << 20);
    session.ok(api.cuMemFree(a));
    session.ok(api.cuMemGetInfo(&free_after, &total));
    CHECK(free_before == free_after);
}

TEST_CASE("pointers are told apart", "[sim][driver]") {
    const SimSession session;
    const DriverApi& api = session.api;
    const CUdeviceptr device = session.words(1);
    void* pinned = nullptr;
    session.ok(api.cuMemAllocHost(&pinned, 64));
    std::vector<uint8_t> plain(64);
    const auto type_of = [&](CUdeviceptr address, unsigned& type) {
        return api.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
    };
    unsigned type = 0;
    CHECK(type_of(device, type) == CUDA_SUCCESS);
    CHECK(type == CU_MEMORYTYPE_DEVICE);
    CHECK(type_of(reinterpret_cast<CUdeviceptr>(pinned), type) == CUDA_SUCCESS);
    CHECK(type == CU_MEMORYTYPE_HOST);
    CHECK(type_of(reinterpret_cast<CUdeviceptr>(plain.data()), type) == CUDA_ERROR_INVALID_VALUE);
    // The plural form answers zeros for a pointer that it does not know.
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED};
    unsigned managed = 9;
    void* out[] = {&type, &managed};
    session.ok(api.cuPointerGetAttributes(2, which, out, reinterpret_cast<CUdeviceptr>(plain.data())));
    CHECK(type == 0);
    CHECK(managed == 0);
    session.ok(api.cuMemHostRegister(plain.data(), plain.size(), 0));
    CHECK(api.cuMemHostRegister(plain.data(), plain.size(), 0) == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    CUdeviceptr mapped = 0;
    session.ok(api.cuMemHostGetDevicePointer(&mapped, plain.data(), 0));
    CHECK(mapped == reinterpret_cast<CUdeviceptr>(plain.data()));
    session.ok(api.cuMemHostUnregister(plain.data()));
    CHECK(api.cuMemHostUnregister(plain.data()) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    session.ok(api.cuMemFreeHost(pinned));
    CHECK(api.cuMemFreeHost(pinned) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("asynchronous copies take pageable sources at the call and pinned ones when the stream gets there",
          "[sim][driver]") {
    const SimSession session;
    const DriverApi& api = session.api;
    const CUstream stream = session.stream();
    const CUdeviceptr a = session.words(1), b = session.words(1);
    uint32_t pageable = 1;
    void* memory = nullptr;
    session.ok(api.cuMemAllocHost(&memory, 4));
    auto* pinned = static_cast<uint32_t*>(memory);
    *pinned = 1;
    session.ok(api.cuMemcpyHtoDAsync(a, &pageable, 4, stream));
    session.ok(api.cuMemcpyHtoDAsync(b, pinned, 4, stream));
    pageable = 2;
    *pinned = 2;
    session.ok(api.cuStreamSynchronize(stream));
    CHECK(session.word(a) == 1);
    CHECK(session.word(b) == 2);
    *pinned = 0;
    session.ok(api.cuMemcpyDtoHAsync(pinned, b, 4, stream));
    uint32_t now = 0;
    session.ok(api.cuMemcpyDtoHAsync(&now, a, 4, stream));  // pageable: complete at return, and so is what came before
    CHECK(now == 1);
    CHECK(*pinned == 2);
    // An allocation freed in the stream lives until then.
    CUdeviceptr c = 0;
    session.ok(api.cuMemAllocAsync(&c, 4, stream));
    session.ok(api.cuMemsetD32Async(c, 77, 1, stream));
    session.ok(api.cuMemcpyDtoDAsync(a, c, 4, stream));
    session.ok(api.cuMemFreeAsync(c, stream));
    session.ok(api.cuStreamSynchronize(stream));
    CHECK(session.word(a) == 77);
    CHECK(api.cuMemFree(c) == CUDA_ERROR_INVALID_VALUE);
}
