// Gates stored as NVFP4, in the two conventions that exist.
//
//                   ModelOpt                          compressed-tensors
//   codes           <gate>.weight         U8          <gate>.weight_packed        U8  [E, K/2]
//   block scales    <gate>.weight_scale   F8_E4M3     <gate>.weight_scale         F8_E4M3 [E, K/16]
//   global scale    <gate>.weight_scale_2 multiplies  <gate>.weight_global_scale  divides, F32 [] or [1]
//   token scale     <gate>.input_scale    multiplies  <gate>.input_global_scale   divides, optional
//
// No published naming has more than one term. Further terms written by `pack` are <gate>.term2.weight (or
// weight_packed) with <gate>.term2.weight_scale, and <gate>.term3...; the global scale is the first term's.
#pragma once

#include <string>
#include <vector>

#include "format/gate.hpp"
#include "format/shards.hpp"

namespace nvfp4r {

enum class PackedNames { kModelOpt, kCompressedTensors };

/// Terms present for a gate whose codes tensor is `tensor`: 1, 2 or 3.
uint32_t packed_terms(const Shards& shards, const std::string& tensor);

/// Fills terms, input_scale, experts and hidden of a packed gate. Refuses by tensor name: wrong types or shapes, a
/// global scale that is NaN, infinite, zero or negative, a block scale that is NaN (unless repaired to 0) or has its
/// sign set.
void load_packed(const Shards& shards, const std::string& tensor, bool repair_nan_scales, Gate& gate);

/// The tensors of a packed gate named after `base` ("model.layers.3.mlp.gate"), for writing. input_scale 0: not
/// written.
std::vector<Tensor> packed_tensors(const std::string& base, const std::vector<Nvfp4Matrix>& terms, float input_scale,
                                   PackedNames names);

}  // namespace nvfp4r
