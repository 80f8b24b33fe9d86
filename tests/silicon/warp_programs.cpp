// Warp and CTA exchange: shfl, vote, match, redux, elect, bar.red (PTX ISA 9.7.13); every lane takes part, or the lanes
// of a mask do.
#include "silicon/table.hpp"

namespace nvfp4r::silicon {

namespace {

constexpr const char* kMasks = "<0x80000000|0x00010000|0xfffffffe|0x5555aaaa|0x0000ffff>";

// p8: the lane is in the mask r8.
std::string in_mask() {
    return std::string("mov.u32 r8, ") + kMasks + "; shr.u32 r9, r8, lane; and.b32 r9, r9, 1; setp.ne.u32 p8, r9, 0; ";
}

std::vector<Form> whole_warps() {
    std::vector<Form> forms;
    // Lane and clamp operands have undefined bits besides those that are kept here.
    add_forms(forms,
              "and.b32 r6, r2, 31; and.b32 r7, r3, 0x1f1f; shfl.sync.<idx|up|down|bfly>.b32 r8|p8, r1, r6, r7, -1; "
              "selp.u32 r9, 1, 0, p8; mov.b64 do, {r8, r9};",
              "d");
    add_forms(forms,
              "and.b32 r6, r2, 31; shfl.sync.idx.b32 r8|p8, r1, r6, <0x1f|0x101f|0x181f|0x1c1f|0x1e1f>, -1; "
              "selp.u32 r9, 1, 0, p8; mov.b64 do, {r8, r9};",
              "d");
    add_forms(forms,
              "shfl.sync.<up|down|bfly>.b32 r8|p8, r1, <1|2|4|8|16>, <0|0x1f|0x181f>, -1; "
              "selp.u32 r9, 1, 0, p8; mov.b64 do, {r8, r9};",
              "d");
    // Lanes below the warp's number vote yes: none in the first warp, all from the 33rd on.
    const std::string vote = "shr.u32 r8, row, 5; setp.lt.u32 p8, lane, r8; ";
    add_forms(forms, vote + "vote.sync.<all|any|uni>.pred po, p8, -1;", "p");
    add_forms(forms, vote + "vote.sync.<all|any|uni>.pred po, !p8, -1;", "p");
    add_forms(forms, vote + "vote.sync.ballot.b32 ro, p8, -1;", "r");
    add_forms(forms, "vote.sync.ballot.b32 ro, p1, -1;", "r");
    add_forms(forms, "and.b32 r8, r1, <0|1|7>; match.any.sync.b32 ro, r8, -1;", "r");
    add_forms(forms, "and.b64 d8, d1, <0|3>; match.any.sync.b64 ro, d8, -1;", "r");
    add_forms(forms,
              "shr.u32 r8, row, <4|5>; match.all.sync.b32 r9|p9, r8, -1; selp.u32 r8, 1, 0, p9; "
              "mov.b64 do, {r9, r8};",
              "d");
    add_forms(forms,
              "cvt.u64.u32 d8, row; shr.u64 d8, d8, <4|5>; match.all.sync.b64 r9|p9, d8, -1; "
              "selp.u32 r8, 1, 0, p9; mov.b64 do, {r9, r8};",
              "d");
    add_forms(forms, "redux.sync.<add|min|max>.<u32|s32> ro, r1, -1;", "r");
    add_forms(forms, "redux.sync.<and|or|xor>.b32 ro, r1, -1;", "r");
    add_forms(forms, "elect.sync r9|p9, -1; selp.u32 r8, 1, 0, p9; mov.b64 do, {r9, r8};", "d");
    add_forms(forms, "mov.u32 ro, %<laneid|lanemask_eq|lanemask_lt|lanemask_le|lanemask_gt|lanemask_ge>;", "r");
    add_forms(forms, "mov.u32 ro, %<tid.x|tid.y|ntid.x|ntid.z|ctaid.x|ctaid.y|nctaid.x|nctaid.z>;", "r");
    return forms;
}

std::vector<Form> masked_warps() {
    std::vector<Form> forms;
    const std::string mask = in_mask();
    add_forms(forms,
              mask +
                  "mov.b64 do, 77; mov.pred p9, 0; @p8 elect.sync r9|p9, r8; selp.u32 r7, 1, 0, p9; "
                  "@p8 mov.b64 do, {r9, r7};",
              "d");
    add_forms(forms, mask + "mov.u32 ro, 77; @p8 redux.sync.<add.u32|min.s32|xor.b32> ro, r1, r8;", "r");
    add_forms(forms, mask + "mov.u32 ro, 77; @p8 vote.sync.ballot.b32 ro, p1, r8;", "r");
    add_forms(forms, mask + "setp.ne.u32 po, lane, lane; @p8 vote.sync.<all|any>.pred po, p1, r8;", "p");
    add_forms(forms, mask + "and.b32 r7, r1, 3; mov.u32 ro, 77; @p8 match.any.sync.b32 ro, r7, r8;", "r");
    // From its own lane: a source outside the mask would be undefined.
    add_forms(forms, mask + "mov.u32 ro, 77; @p8 shfl.sync.idx.b32 ro, r1, lane, 0x1f, r8;", "r");
    return forms;
}

std::vector<Form> whole_ctas() {
    std::vector<Form> forms;
    add_forms(forms, "bar.red.popc.u32 ro, <0|3>, <p1|!p1>;", "r");
    add_forms(forms, "bar.red.popc.u32 ro, 5, 256, p2;", "r");
    const std::string vote = "mov.u32 r9, %ctaid.x; mov.u32 r8, %tid.x; shl.b32 r9, r9, 6; setp.lt.u32 p8, r8, r9; ";
    add_forms(forms, vote + "bar.red.<and|or>.pred po, 1, <p8|!p8>;", "p");
    add_forms(forms, vote + "barrier.cta.red.popc.aligned.u32 ro, 2, p8;", "r");
    return forms;
}

}  // namespace

void add_warp_programs(Programs& programs) {
    programs.push_back(table_program("warp exchange", whole_warps(), {Values::words}, 61));
    programs.push_back(table_program("warp exchange under masks", masked_warps(), {Values::words}, 62));
    programs.push_back(table_program("CTA reductions", whole_ctas(), {Values::words}, 63));
}

}  // namespace nvfp4r::silicon
