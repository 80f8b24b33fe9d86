// Tensor maps: host/sim/engine knows their form and the driver's rules.
#include "sim/engine/tensor_map.hpp"

#include <cstring>

#include "sim/driver/entries.hpp"
#include "sim/driver/state.hpp"

namespace nvfp4r::sim::driver::cu {

namespace {

static_assert(sizeof(TensorMap) == sizeof(CUtensorMap), "a simulated map takes the place of a real one");
constexpr uintptr_t kMapAlignment = 16;  // what H200's driver accepts, though the manual asks for 64

/// The GPU whose rules apply: the current context's, or the first.
uint32_t current_sm() {
    CUctx_st* context = context_stack().empty() ? nullptr : find_context(context_stack().back());
    return device_of(context != nullptr ? context->device : 0).gpu->config().sm;
}

void require_map(const CUtensorMap* map) {
    require_pointer(map, "tensorMap");
    if (reinterpret_cast<uintptr_t>(map) % kMapAlignment != 0)
        refuse(CUDA_ERROR_INVALID_VALUE, "tensorMap {} is not aligned", static_cast<const void*>(map));
}

}  // namespace

// C programs may pass numbers that are no enumerators; refusing them means reading them.
__attribute__((no_sanitize("enum"))) CUresult cuTensorMapEncodeTiled(
    CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address, const cuuint64_t* dims,
    const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t* element_strides,
    CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2_promotion,
    CUtensorMapFloatOOBfill fill) {
    TensorMapRequest request;
    request.type = static_cast<uint32_t>(type);
    request.interleave = static_cast<uint32_t>(interleave);
    request.swizzle = static_cast<uint32_t>(swizzle);
    request.l2_promotion = static_cast<uint32_t>(l2_promotion);
    request.oob_fill = static_cast<uint32_t>(fill);
    return in_driver("cuTensorMapEncodeTiled", [&](Call&) {
        require_map(map);
        require_pointer(dims, "globalDim");
        require_pointer(box, "boxDim");
        require_pointer(element_strides, "elementStrides");
        // The driver refuses a null pointer for one dimension too, which has no strides (measured on H200).
        require_pointer(strides, "globalStrides");
        // The library's cuuint64_t is another 64-bit type than uint64_t.
        uint64_t dims_copy[kMaxTensorRank] = {}, strides_copy[kMaxTensorRank] = {};
        for (uint32_t i = 0; i < std::min<uint32_t>(rank, kMaxTensorRank); ++i) {
            dims_copy[i] = dims[i];
            if (i + 1 < rank) strides_copy[i] = strides[i];
        }
        request.rank = rank;
        request.address = reinterpret_cast<uint64_t>(address);
        request.dims = dims_copy;
        request.strides = strides_copy;
        request.box = box;
        request.element_strides = element_strides;
        TensorMap made = {};
        if (const std::string why = encode_tensor_map(request, current_sm(), made); !why.empty())
            refuse(CUDA_ERROR_INVALID_VALUE, "{}", why);
        std::memcpy(map, &made, sizeof made);
    });
}

CUresult cuTensorMapReplaceAddress(CUtensorMap* map, void* address) {
    return in_driver("cuTensorMapReplaceAddress", [&](Call&) {
        require_map(map);
        uint8_t bytes[sizeof(CUtensorMap)];
        std::memcpy(bytes, map, sizeof bytes);
        TensorMap old = {};
        if (!read_tensor_map(bytes, old)) refuse(CUDA_ERROR_INVALID_VALUE, "the map was not made by this driver");
        TensorMapRequest request;
        uint32_t box[kMaxTensorRank], element_strides[kMaxTensorRank];
        for (uint32_t i = 0; i < kMaxTensorRank; ++i) {
            box[i] = old.box[i];
            element_strides[i] = old.element_strides[i];
        }
        request.type = static_cast<uint32_t>(old.type);
        request.rank = old.rank;
        request.address = reinterpret_cast<uint64_t>(address);
        request.dims = old.dims;
        request.strides = old.strides;
        request.box = box;
        request.element_strides = element_strides;
        request.interleave = static_cast<uint32_t>(old.interleave);
        request.swizzle = static_cast<uint32_t>(old.swizzle);
        request.l2_promotion = old.l2_promotion;
        request.oob_fill = static_cast<uint32_t>(old.fill);
        TensorMap made = {};
        if (const std::string why = encode_tensor_map(request, current_sm(), made); !why.empty())
            refuse(CUDA_ERROR_INVALID_VALUE, "{}", why);
        std::memcpy(map, &made, sizeof made);
    });
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                                 const cuuint64_t*, const int*, const int*, cuuint32_t, cuuint32_t, const cuuint32_t*,
                                 CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                                 CUtensorMapFloatOOBfill) {
    return in_driver("cuTensorMapEncodeIm2col", [](Call&) {
        log_once("cuTensorMapEncodeIm2col is not simulated");
        refuse(CUDA_ERROR_NOT_SUPPORTED, "im2col tensor maps are not simulated");
    });
}

}  // namespace nvfp4r::sim::driver::cu
