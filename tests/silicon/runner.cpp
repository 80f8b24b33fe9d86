#include "silicon/runner.hpp"

namespace nvfp4r::silicon {

namespace {

constexpr unsigned kDefaultSharedLimit = 48 * 1024;

CUtensorMap encode(const DriverApi& api, const Program& program, const TensorMapSpec& spec, CUdeviceptr address) {
    CUtensorMap map;
    std::vector<cuuint32_t> element_strides = spec.element_strides;
    element_strides.resize(spec.dims.size(), 1);
    // The driver wants an address of strides also for one dimension, which has none.
    std::vector<cuuint64_t> strides = spec.strides;
    strides.resize(spec.dims.size());
    check(api,
          api.cuTensorMapEncodeTiled(&map, spec.type, static_cast<cuuint32_t>(spec.dims.size()),
                                     reinterpret_cast<void*>(address), spec.dims.data(), strides.data(),
                                     spec.box.data(), element_strides.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
                                     spec.swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE, spec.fill),
          "cuTensorMapEncodeTiled", "{}", program.name);
    return map;
}

}  // namespace

Runner::Runner(const DriverApi& api) : api_(api) {
    check(api_, api_.cuInit(0), "cuInit");
    CUcontext context = nullptr;
    check(api_, api_.cuDevicePrimaryCtxRetain(&context, device_), "cuDevicePrimaryCtxRetain");
    check(api_, api_.cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

Runner::~Runner() {
    api_.cuDevicePrimaryCtxRelease(device_);
}

std::string Runner::machine() const {
    constexpr int kNameBytes = 128;
    char name[kNameBytes] = {};
    int major = 0, minor = 0;
    check(api_, api_.cuDeviceGetName(name, kNameBytes, device_), "cuDeviceGetName");
    check(api_, api_.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device_),
          "cuDeviceGetAttribute");
    check(api_, api_.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device_),
          "cuDeviceGetAttribute");
    return fmt::format("{}, compute capability {}.{}, driver for CUDA {}", name, major, minor,
                       version_text(api_.version));
}

void Runner::launch(const Program& program, const Launch& launch, CUmodule module, std::vector<void*>& arguments) {
    CUfunction function = nullptr;
    check(api_, api_.cuModuleGetFunction(&function, module, launch.entry.c_str()), "cuModuleGetFunction", "{}",
          program.name);
    if (launch.shared > kDefaultSharedLimit)
        check(api_,
              api_.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                      static_cast<int>(launch.shared)),
              "cuFuncSetAttribute", "{}", program.name);
    CUlaunchAttribute attributes[2] = {};
    CUlaunchConfig config = {};
    config.gridDimX = launch.grid;
    config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = launch.block;
    config.blockDimY = config.blockDimZ = 1;
    config.sharedMemBytes = launch.shared;
    config.attrs = attributes;
    if (launch.cluster != 0) {
        CUlaunchAttribute& attribute = attributes[config.numAttrs++];
        attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        attribute.value.clusterDim.x = launch.cluster;
        attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
    }
    if (launch.programmatic) {
        CUlaunchAttribute& attribute = attributes[config.numAttrs++];
        attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        attribute.value.programmaticStreamSerializationAllowed = 1;
    }
    check(api_, api_.cuLaunchKernelEx(&config, function, arguments.data(), nullptr), "cuLaunchKernelEx", "{}",
          program.name);
}

Outputs Runner::run(const Program& program) {
    CUmodule module = nullptr;
    check(api_, api_.cuModuleLoadData(&module, program.ptx.c_str()), "cuModuleLoadData", "{}", program.name);
    std::vector<CUdeviceptr> addresses(program.buffers.size());
    std::vector<void*> arguments;
    for (size_t i = 0; i < program.buffers.size(); ++i) {
        const std::vector<uint8_t>& bytes = program.buffers[i].bytes;
        check(api_, api_.cuMemAlloc(&addresses[i], bytes.size()), "cuMemAlloc", "{}", program.name);
        check(api_, api_.cuMemcpyHtoD(addresses[i], bytes.data(), bytes.size()), "cuMemcpyHtoD", "{}", program.name);
        arguments.push_back(&addresses[i]);
    }
    std::vector<CUtensorMap> maps;
    maps.reserve(program.maps.size());
    for (const TensorMapSpec& spec : program.maps) {
        maps.push_back(encode(api_, program, spec, addresses[spec.buffer]));
        arguments.push_back(&maps.back());
    }
    for (const Launch& one : program.launches) launch(program, one, module, arguments);
    check(api_, api_.cuCtxSynchronize(), "cuCtxSynchronize", "{}", program.name);
    Outputs outputs;
    for (size_t i = 0; i < program.buffers.size(); ++i) {
        if (program.buffers[i].output) {
            std::vector<uint8_t> bytes(program.buffers[i].bytes.size());
            check(api_, api_.cuMemcpyDtoH(bytes.data(), addresses[i], bytes.size()), "cuMemcpyDtoH", "{}",
                  program.name);
            outputs.push_back(std::move(bytes));
        }
        check(api_, api_.cuMemFree(addresses[i]), "cuMemFree", "{}", program.name);
    }
    check(api_, api_.cuModuleUnload(module), "cuModuleUnload", "{}", program.name);
    return outputs;
}

}  // namespace nvfp4r::silicon
