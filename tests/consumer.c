/* A program in plain C99 that knows only the public header: makes a gate, routes two tokens, checks what came out. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "nvfp4router.h"

enum { kExperts = 4, kHidden = 16, kTokens = 2, kTopK = 2 };

static int failures = 0;

static void expect(int condition, const char* what) {
    if (condition) return;
    fprintf(stderr, "consumer: %s (last error: %s)\n", what, nvfp4r_last_error());
    failures++;
}

int main(void) {
    /* Expert e answers to element e of a token. */
    float weight[kExperts][kHidden] = {{0}};
    float hidden[kTokens][kHidden] = {{0}};
    float weights[kTokens][kTopK];
    int32_t ids[kTokens][kTopK];
    nvfp4r_gate_desc desc = NVFP4R_GATE_DESC_INIT;
    nvfp4r_gate_info info = NVFP4R_GATE_INFO_INIT;
    nvfp4r_settings settings = NVFP4R_SETTINGS_INIT;
    nvfp4r_router_options options = NVFP4R_ROUTER_OPTIONS_INIT;
    nvfp4r_call call = NVFP4R_CALL_INIT;
    nvfp4r_gate* gate = NULL;
    nvfp4r_router* router = NULL;
    int e;

    for (e = 0; e < kExperts; e++) weight[e][e] = 1.0f;
    hidden[0][2] = 3.0f;
    hidden[0][1] = 1.0f;
    hidden[1][3] = 1.0f;

    desc.experts = kExperts;
    desc.hidden = kHidden;
    desc.weight = weight;
    desc.weight_type = NVFP4R_F32;
    expect(nvfp4r_gate_create(&desc, &gate) == NVFP4R_OK, "gate_create");
    expect(nvfp4r_gate_get_info(gate, &info) == NVFP4R_OK && info.experts == kExperts, "gate_get_info");

    settings.experts = kExperts;
    settings.hidden = kHidden;
    settings.top_k = kTopK;
    expect(nvfp4r_router_create(gate, &settings, &options, &router) == NVFP4R_INVALID_ARGUMENT, "no score is refused");
    expect(strstr(nvfp4r_last_error(), "settings.score") != NULL, "the refusal names the field");

    settings.score = NVFP4R_SCORE_SOFTMAX;
    settings.renormalise = 1;
    options.device = NVFP4R_DEVICE_CPU;
    expect(nvfp4r_router_create(gate, &settings, &options, &router) == NVFP4R_OK, "router_create");
    nvfp4r_gate_destroy(gate); /* the router lives on */
    if (!router) return 1;
    expect(nvfp4r_router_description(router)[0] != '\0', "router_description");

    call.tokens = kTokens;
    call.hidden = hidden;
    call.hidden_type = NVFP4R_F32;
    call.weights = weights;
    call.ids = ids;
    expect(nvfp4r_route(router, &call) == NVFP4R_OK, "route");
    expect(ids[0][0] == 2 && ids[0][1] == 1, "token 0 goes to experts 2 and 1");
    expect(fabsf(weights[0][0] - 0.880797f) < 1e-5f, "token 0 weighs 1 / (1 + exp(-2))");
    expect(ids[1][0] == 3 && ids[1][1] == 0, "token 1 goes to expert 3, then the lowest id of a tie");

    call.tokens = 0;
    call.hidden = NULL;
    expect(nvfp4r_route(router, &call) == NVFP4R_OK, "no tokens, no pointers");
    nvfp4r_router_destroy(router);
    if (failures == 0) printf("consumer: ok, %s\n", nvfp4r_status_name(NVFP4R_OK));
    return failures != 0;
}
