// Programmatic dependent launch (PTX ISA 9.7.13.13): what the second grid reads after griddepcontrol.wait is all that the
// first one wrote, also after its trigger.
#include "silicon/engine_text.hpp"

namespace nvfp4r::silicon {

namespace {

constexpr unsigned kLaunchThreads = 128, kCtas = 8;

// The first grid triggers, works for a while and writes; the second waits and combines what both halves wrote.
std::string text(bool triggers) {
    return fmt::format(R"(.version 8.6
.target sm_90a
.address_size 64
.visible .entry produce(.param .u64 p0, .param .u64 p1, .param .u64 p2)
{{
.reg .b32 %r<10>; .reg .b64 %d<10>; .reg .pred %p<4>;
mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r1, %r2, {0}, %r1;
ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1];
mul.wide.u32 %d3, %r1, 4; add.u64 %d1, %d1, %d3; add.u64 %d2, %d2, %d3;
{1}
ld.global.b32 %r3, [%d1]; mov.u32 %r4, 0;
turn:
mad.lo.u32 %r3, %r3, 1664525, 1013904223; add.u32 %r4, %r4, 1;
setp.lt.u32 %p1, %r4, 200; @%p1 bra turn;
st.global.b32 [%d2], %r3;
ret;
}}
.visible .entry consume(.param .u64 p0, .param .u64 p1, .param .u64 p2)
{{
.reg .b32 %r<10>; .reg .b64 %d<10>;
mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r1, %r2, {0}, %r1;
ld.param.u64 %d1, [p1]; ld.param.u64 %d2, [p2];
mul.wide.u32 %d3, %r1, 4; add.u64 %d4, %d1, %d3; add.u64 %d2, %d2, %d3;
sub.u32 %r3, {2}, %r1; mul.wide.u32 %d5, %r3, 4; add.u64 %d5, %d1, %d5;
griddepcontrol.wait;
ld.global.b32 %r4, [%d4]; ld.global.b32 %r5, [%d5];
mad.lo.u32 %r4, %r4, 3, %r5; st.global.b32 [%d2], %r4;
ret;
}}
)",
                       kLaunchThreads, triggers ? "griddepcontrol.launch_dependents;" : "", kLaunchThreads * kCtas - 1);
}

}  // namespace

void add_dependent_launch_programs(Programs& programs) {
    for (const bool triggers : {true, false}) {
        Program program;
        program.name = triggers ? "dependent launch" : "dependent launch without trigger";
        Buffer between, out;
        between.bytes.resize(kLaunchThreads * kCtas * 4);
        out.bytes.resize(kLaunchThreads * kCtas * 4);
        out.output = true;
        program.buffers = {{random_bytes(Values::words, kLaunchThreads * kCtas * 4, 701)}, between, out};
        program.launches = {{.entry = "produce", .grid = kCtas, .block = kLaunchThreads},
                            {.entry = "consume", .grid = kCtas, .block = kLaunchThreads, .programmatic = true}};
        program.ptx = text(triggers);
        programs.push_back(program);
    }
}

}  // namespace nvfp4r::silicon
