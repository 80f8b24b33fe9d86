// The words that stand for the C API's enumerators on the command line and in JSON.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nvfp4router.h"

namespace nvfp4r::cli {

struct Named {
    const char* name;
    int value;
};

inline constexpr Named kScores[] = {{"sqrtsoftplus", NVFP4R_SCORE_SQRTSOFTPLUS},
                                    {"sigmoid", NVFP4R_SCORE_SIGMOID},
                                    {"softmax", NVFP4R_SCORE_SOFTMAX},
                                    {"identity", NVFP4R_SCORE_IDENTITY}};
inline constexpr Named kWeightings[] = {{"score", NVFP4R_WEIGHT_SCORE},
                                        {"softmax-after", NVFP4R_WEIGHT_SOFTMAX_AFTER},
                                        {"sigmoid-after", NVFP4R_WEIGHT_SIGMOID_AFTER}};
inline constexpr Named kGroupScores[] = {{"top2-sum", NVFP4R_GROUP_TOP2_SUM}, {"max", NVFP4R_GROUP_MAX}};
inline constexpr Named kPrecisions[] = {{"nvfp4", NVFP4R_PRECISION_NVFP4},
                                        {"nvfp4x2", NVFP4R_PRECISION_NVFP4X2},
                                        {"nvfp4x3", NVFP4R_PRECISION_NVFP4X3},
                                        {"nvfp4-w", NVFP4R_PRECISION_NVFP4_W},
                                        {"nvfp4x2-w", NVFP4R_PRECISION_NVFP4X2_W},
                                        {"rescore", NVFP4R_PRECISION_RESCORE},
                                        {"bf16", NVFP4R_PRECISION_BF16}};
inline constexpr Named kBlockRules[] = {{"amax", NVFP4R_BLOCK_AMAX},
                                        {"least-squares", NVFP4R_BLOCK_LEAST_SQUARES},
                                        {"four-over-six", NVFP4R_BLOCK_FOUR_OVER_SIX}};
inline constexpr Named kDevices[] = {
    {"auto", NVFP4R_DEVICE_AUTO}, {"cpu", NVFP4R_DEVICE_CPU}, {"cuda", NVFP4R_DEVICE_CUDA}, {"sim", NVFP4R_DEVICE_SIM}};
inline constexpr Named kCpuArithmetics[] = {{"exact", NVFP4R_CPU_EXACT}, {"hardware", NVFP4R_CPU_HARDWARE}};
inline constexpr Named kScaleLayouts[] = {{"linear", NVFP4R_SCALES_LINEAR}, {"128x4", NVFP4R_SCALES_128X4}};

std::vector<std::string> names_of(std::span<const Named> table);
/// The value of a name that the option's IsMember has accepted.
int value_of(std::span<const Named> table, std::string_view name);
/// "?" for a value that has no name here.
const char* name_of(std::span<const Named> table, int value);

}  // namespace nvfp4r::cli
