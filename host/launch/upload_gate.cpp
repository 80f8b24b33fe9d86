#include "launch/upload_gate.hpp"

#include <algorithm>
#include <span>

#include "jit/target.hpp"
#include "launch/tensor_maps.hpp"
#include "plan/pack_gate.hpp"
#include "plan/pack_gate_sm100.hpp"

namespace nvfp4r {
namespace {

using Context = std::shared_ptr<const GpuContext>;

std::vector<PackedPlane> pack(const RouterPlanInput& input, StepOrder order) {
    std::vector<PackedPlane> planes;
    if (input.settings.precision == NVFP4R_PRECISION_BF16)
        planes.push_back(pack_bf16(input.gate->weight, input.gate->experts, input.gate->hidden, order));
    else
        for (const Nvfp4Matrix& term : input.terms) planes.push_back(pack_nvfp4(term, order));
    return planes;
}

/// Tiles in the order of the Hopper kernels' lanes.
void upload_tiles(const Context& context, const RouterPlanInput& input, DeviceGate& device) {
    if (input.settings.precision != NVFP4R_PRECISION_BF16) device.alpha = input.terms.at(0).global_scale;
    const std::vector<PackedPlane> planes = pack(input, StepOrder::kBlocks);
    const std::vector<PackedPlane> natural = pack(input, StepOrder::kNatural);
    device.planes = static_cast<uint32_t>(planes.size());
    for (uint32_t q = 0; q < device.planes; ++q) {
        device.codes[q] = upload(context, std::span<const uint32_t>(planes[q].codes));
        device.natural_codes[q] = upload(context, std::span<const uint32_t>(natural[q].codes));
        device.scales[q] = upload(context, std::span<const uint16_t>(planes[q].scales));
    }
}

/// Rows for TMA, as the Blackwell kernel reads them.
void upload_rows(const Context& context, const RouterPlanInput& input, DeviceGate& device) {
    const bool bf16 = input.settings.precision == NVFP4R_PRECISION_BF16;
    const GateImage image =
        bf16 ? image_of_bf16(input.gate->weight, input.gate->experts, input.gate->hidden) : image_of_terms(input.terms);
    if (!bf16) device.alpha = input.terms.at(0).global_scale;
    device.planes = bf16 ? 1 : static_cast<uint32_t>(input.terms.size());
    device.codes[0] = upload(context, std::span<const uint8_t>(image.operands));
    for (size_t q = 0; q < image.scales.size(); ++q)
        device.scales[q] = upload(context, std::span<const uint8_t>(image.scales[q]));
    device.operand_map = gate_operands_map(*context, image, device.codes[0]);
}

}  // namespace

DeviceGate upload_gate(const Context& context, const RouterPlanInput& input) {
    const Gate& gate = *input.gate;
    DeviceGate device;
    const bool hopper = target_for(context->limits().major, context->limits().minor).family == KernelFamily::kWgmma;
    (hopper ? upload_tiles : upload_rows)(context, input, device);
    device.bias = upload(context, std::span<const float>(gate.bias));
    device.linear_bias = upload(context, std::span<const float>(gate.linear_bias));
    device.image_bias = upload(context, std::span<const float>(gate.image_bias));
    device.expert_factor = upload(context, std::span<const float>(gate.expert_factor));
    // Entries that no expert has stay outside [0, E) as 32-bit numbers too.
    std::vector<int32_t> table(gate.table.size());
    std::transform(gate.table.begin(), gate.table.end(), table.begin(),
                   [&](int64_t id) { return id >= 0 && id < gate.experts ? static_cast<int32_t>(id) : -1; });
    device.table = upload(context, std::span<const int32_t>(table));
    device.vocabulary = gate.vocabulary;
    device.table_k = gate.table_k;
    return device;
}

}  // namespace nvfp4r
