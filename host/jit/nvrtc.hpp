// NVRTC, the run-time compiler, opened when the first kernel must be compiled: nothing links against it.
#pragma once

#include <nvrtc.h>

#include <string>
#include <vector>

namespace nvfp4r {

// clang-format off
#define NVFP4R_NVRTC_ENTRIES(X) \
    X(nvrtcVersion) X(nvrtcGetErrorString) X(nvrtcGetNumSupportedArchs) X(nvrtcGetSupportedArchs) \
    X(nvrtcCreateProgram) X(nvrtcDestroyProgram) X(nvrtcCompileProgram) \
    X(nvrtcGetPTXSize) X(nvrtcGetPTX) X(nvrtcGetCUBINSize) X(nvrtcGetCUBIN) \
    X(nvrtcGetProgramLogSize) X(nvrtcGetProgramLog)
// clang-format on

struct NvrtcApi {
#define NVFP4R_MEMBER(name) decltype(&::name) name = nullptr;
    NVFP4R_NVRTC_ENTRIES(NVFP4R_MEMBER)
#undef NVFP4R_MEMBER
    std::string path;  // of the opened file
    int major = 0, minor = 0;

    std::string version() const;  // "13.0"
};

/// NVRTC of the file that NVFP4R_LIBNVRTC names, else the first of libnvrtc.so.13 and .12 on the loader's path, in
/// CUDA_HOME, CUDA_PATH, /usr/local/cuda and build/cuda. Opened once, never closed. Throws NO_DEVICE listing what was
/// tried. Thread safe.
const NvrtcApi& nvrtc();

/// What nvrtc() tries, in order.
std::vector<std::string> nvrtc_candidates();

/// Opens the first of `candidates` that loads, without caching it.
NvrtcApi open_nvrtc(const std::vector<std::string>& candidates);

}  // namespace nvfp4r
