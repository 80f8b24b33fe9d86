#include "silicon/program.hpp"

#include <fmt/format.h>

namespace nvfp4r::silicon {

std::vector<std::string> expand(const std::string& pattern) {
    const size_t open = pattern.find('<');
    if (open == std::string::npos) return {pattern};
    const size_t close = pattern.find('>', open);
    std::vector<std::string> out;
    for (size_t at = open + 1; at <= close;) {
        const size_t end = std::min(pattern.find('|', at), close);
        for (const std::string& text :
             expand(pattern.substr(0, open) + pattern.substr(at, end - at) + pattern.substr(close + 1)))
            out.push_back(text);
        at = end + 1;
    }
    return out;
}

std::string engine_module(const Program& program, const std::string& body) {
    std::string params, loads;
    for (size_t i = 0; i < program.buffers.size(); ++i) {
        params += fmt::format("{}.param .u64 p{}", i ? ", " : "", i);
        loads += fmt::format("ld.param.u64 %b{0}, [p{0}];\n", i);
    }
    for (size_t i = 0; i < program.maps.size(); ++i) {
        params += fmt::format(", .param .align 64 .b8 map{}[128]", i);
        loads += fmt::format("mov.b64 %m{0}, map{0};\ncvta.param.u64 %m{0}, %m{0};\n", i);
    }
    return fmt::format(
        ".version 8.6\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 sm[];\n"
        ".visible .entry k({}) {{\n.shared .align 1024 .b8 mb[128];\n.reg .pred %p<32>;\n.reg .b16 %h<32>;\n"
        ".reg .b32 %r<600>;\n.reg .b64 %d<64>;\n.reg .b64 %b<8>;\n.reg .b64 %m<4>;\n.reg .b32 %tid_x;\n.reg .b32 "
        "%cta_x;\n"
        "{}mov.u32 %tid_x, %tid.x;\nmov.u32 %cta_x, %ctaid.x;\n{}\nret;\n}}\n",
        params, loads, body);
}

const Programs& all_programs() {
    static const Programs programs = [] {
        Programs made;
        add_integer_programs(made);
        add_float_programs(made);
        add_half_programs(made);
        add_conversion_programs(made);
        add_approximation_programs(made);
        add_warp_programs(made);
        add_memory_programs(made);
        add_control_programs(made);
        add_tensor_copy_programs(made);
        add_bulk_copy_programs(made);
        add_mbarrier_programs(made);
        add_cluster_programs(made);
        add_matrix_programs(made);
        add_warpgroup_programs(made);
        add_dependent_launch_programs(made);
        return made;
    }();
    return programs;
}

}  // namespace nvfp4r::silicon
