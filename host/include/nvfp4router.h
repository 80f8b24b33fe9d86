/* libnvfp4router: the mixture-of-experts router in one launch. Hidden states in, expert ids and weights out.
 *
 *     nvfp4r_gate*    gate   = NULL;
 *     nvfp4r_router*  router = NULL;
 *     nvfp4r_settings settings = NVFP4R_SETTINGS_INIT;
 *     nvfp4r_settings_preset("deepseek-v4-pro", &settings);
 *     nvfp4r_gate_load("model/", 5, NULL, &gate);
 *     nvfp4r_router_create(gate, &settings, NULL, &router);
 *     nvfp4r_call call = NVFP4R_CALL_INIT;
 *     call.tokens = 64;  call.hidden = x;  call.hidden_type = NVFP4R_BF16;
 *     call.weights = w;  call.ids = ids;                                     // [64, top_k] f32 and i32
 *     if (nvfp4r_route(router, &call) != NVFP4R_OK) puts(nvfp4r_last_error());
 *
 * Shapes: M tokens, K hidden size, E experts, k experts a token. Strides count elements of the tensor's own type; 0 means
 * dense. Every structure starts with its own size: fill it with the matching _INIT macro, so that a program built against
 * an older header keeps its meaning. Enumerators start at 1 where "not set" must be refused.
 *
 * Errors: every function that can fail returns a status; nvfp4r_last_error() gives the text of the calling thread's last
 * failure. Bad input is refused before anything is launched or written. No C++ exception leaves the library.
 *
 * Threads: gates are immutable after creation and may be shared. One router may be used by several threads at once.
 *
 * Plain C99. Licence: MIT. */
#ifndef NVFP4ROUTER_H
#define NVFP4ROUTER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NVFP4R_VERSION_MAJOR 0
#define NVFP4R_VERSION_MINOR 1
#define NVFP4R_VERSION_PATCH 0

/* Limits of the contract. Refusals name them. */
#define NVFP4R_MAX_EXPERTS 2048u
#define NVFP4R_MAX_TOP_K 32u
#define NVFP4R_MAX_TOKENS ((int64_t)1 << 24)
#define NVFP4R_MAX_HIDDEN 65536u
#define NVFP4R_MAX_TERMS 3u

/* A C caller's enum may hold any int, and the library looks at what it was given before it uses it. In C++ only an enum
 * with a fixed type may hold a number that has no name. */
#ifdef __cplusplus
#define NVFP4R_INT_ENUM : int
#else
#define NVFP4R_INT_ENUM
#endif

typedef enum nvfp4r_status NVFP4R_INT_ENUM {
    NVFP4R_OK = 0,
    NVFP4R_INVALID_ARGUMENT = 1, /* a value, shape, stride or capacity is wrong */
    NVFP4R_UNSUPPORTED = 2,      /* legal, but not on this device or in this build; the text says what would work */
    NVFP4R_IO_ERROR = 3,         /* the operating system refused a read or write */
    NVFP4R_BAD_FILE = 4,         /* a file breaks its format, or a checkpoint lacks or contradicts itself */
    NVFP4R_OUT_OF_MEMORY = 5,
    NVFP4R_NO_DEVICE = 6,     /* no driver, no GPU, or one that no kernel here fits */
    NVFP4R_DRIVER_ERROR = 7,  /* a CUDA driver call failed; the text has its name and string */
    NVFP4R_COMPILE_ERROR = 8, /* NVRTC refused a kernel; the text has its log */
    NVFP4R_INTERNAL = 9
} nvfp4r_status;

/* Text of the calling thread's last failure; "" when there was none. Valid until that thread's next call. */
const char* nvfp4r_last_error(void);
/* "NVFP4R_OK" ... ; "unknown status" for other values. */
const char* nvfp4r_status_name(nvfp4r_status status);
/* major << 16 | minor << 8 | patch of the library in use. */
uint32_t nvfp4r_version(void);

typedef enum nvfp4r_dtype NVFP4R_INT_ENUM {
    NVFP4R_DTYPE_UNSET = 0,
    NVFP4R_F32 = 1,
    NVFP4R_BF16 = 2,
    NVFP4R_F16 = 3,
    NVFP4R_E2M1 = 4, /* packed NVFP4 codes, two a byte, the even element in the low nibble */
    NVFP4R_F8_E4M3 = 5,
    NVFP4R_U8 = 6,
    NVFP4R_I16 = 7,
    NVFP4R_I32 = 8,
    NVFP4R_I64 = 9,
    NVFP4R_PACKED = 10 /* ids only: id << 16 | bf16 weight, one u32 */
} nvfp4r_dtype;

typedef enum nvfp4r_score NVFP4R_INT_ENUM {
    NVFP4R_SCORE_UNSET = 0,        /* refused */
    NVFP4R_SCORE_SQRTSOFTPLUS = 1, /* sqrt(softplus(logit)), DeepSeek-V4 */
    NVFP4R_SCORE_SIGMOID = 2,
    NVFP4R_SCORE_SOFTMAX = 3, /* over all E */
    NVFP4R_SCORE_IDENTITY = 4
} nvfp4r_score;

/* What the weight of a chosen expert is made from, before renormalising and scaling. */
typedef enum nvfp4r_weighting NVFP4R_INT_ENUM {
    NVFP4R_WEIGHT_SCORE = 0,         /* the score itself, without bias */
    NVFP4R_WEIGHT_SOFTMAX_AFTER = 1, /* softmax over the k chosen logits (gpt-oss) */
    NVFP4R_WEIGHT_SIGMOID_AFTER = 2  /* sigmoid of the chosen logit (Llama 4) */
} nvfp4r_weighting;

typedef enum nvfp4r_group_score NVFP4R_INT_ENUM {
    NVFP4R_GROUP_TOP2_SUM = 0, /* DeepSeek-V3 */
    NVFP4R_GROUP_MAX = 1       /* DeepSeek-V2 */
} nvfp4r_group_score;

/* How the gate's weight and the tokens enter the multiply. See "precisions" in the README for accuracy and bytes. */
typedef enum nvfp4r_precision NVFP4R_INT_ENUM {
    NVFP4R_PRECISION_UNSET = 0,   /* the gate's own: BF16 for a bf16/f16/f32 gate, NVFP4 terms for a packed one */
    NVFP4R_PRECISION_NVFP4 = 1,   /* W1 X1 */
    NVFP4R_PRECISION_NVFP4X2 = 2, /* W1 X1 + W2 X1 + W1 X2 */
    NVFP4R_PRECISION_NVFP4X3 = 3, /* the six products of at most three terms together */
    NVFP4R_PRECISION_NVFP4_W = 4, /* W1 x, tokens unquantised */
    NVFP4R_PRECISION_NVFP4X2_W = 5,
    NVFP4R_PRECISION_RESCORE = 6, /* two terms as a filter, then the experts in doubt again from the bf16 gate */
    NVFP4R_PRECISION_BF16 = 7
} nvfp4r_precision;

typedef enum nvfp4r_scale_layout NVFP4R_INT_ENUM {
    NVFP4R_SCALES_LINEAR = 0, /* [rows, K/16] */
    NVFP4R_SCALES_128X4 = 1,  /* 512-byte atoms, rows padded to 128 and columns to 4 */
    NVFP4R_SCALES_8X4 = 2     /* known by name, refused */
} nvfp4r_scale_layout;

/* how the global scale is stored */
typedef enum nvfp4r_scale_rule NVFP4R_INT_ENUM {
    NVFP4R_SCALE_MULTIPLIES = 0, /* value = e2m1 * e4m3 * g (ModelOpt) */
    NVFP4R_SCALE_DIVIDES = 1     /* value = e2m1 * e4m3 / g (compressed-tensors) */
} nvfp4r_scale_rule;

/* how a block scale is chosen when the library quantises */
typedef enum nvfp4r_block_rule NVFP4R_INT_ENUM {
    NVFP4R_BLOCK_AMAX = 0,          /* e4m3(amax / 6 / global), the contract's rule */
    NVFP4R_BLOCK_LEAST_SQUARES = 1, /* the e4m3 scale near it with the least squared error */
    NVFP4R_BLOCK_FOUR_OVER_SIX = 2  /* amax / 6 or amax / 4, whichever has the lesser squared error */
} nvfp4r_block_rule;

/* ---- settings: what the model fixes ------------------------------------------------------------------------------- */

typedef struct nvfp4r_settings {
    size_t size;
    uint32_t experts;   /* E, 1..2048 */
    uint32_t hidden;    /* K, a multiple of 16 */
    uint32_t top_k;     /* k, 1..32 and at most E */
    nvfp4r_score score; /* must be set */
    nvfp4r_weighting weighting;
    uint32_t groups; /* 0 or 1: no groups; else divides E */
    uint32_t groups_kept;
    nvfp4r_group_score group_score;
    int32_t renormalise; /* 1: divide by the sum of the k scores + renormalise_eps */
    float renormalise_eps;
    float routed_scaling;  /* multiplied last */
    float logit_soft_cap;  /* c: logit = c * tanh(logit / c); 0: none */
    int32_t use_bias;      /* 1: the gate must have a selection bias; 0: a bias in the gate is not used */
    uint32_t shared_slots; /* ids E, E+1, ... appended to every row */
    float shared_weight;
    nvfp4r_precision precision;
    nvfp4r_block_rule block_rule; /* for quantising the gate */
    float
        activation_scale; /* global scale (multiplier) of the tokens when quantised; 0: the gate's input_scale if it has
                               one, else amax of the token / 2688, token by token */
    int32_t batch_invariant; /* 1: a row's result never depends on M or on its place in the batch */
} nvfp4r_settings;

#define NVFP4R_SETTINGS_INIT                                                                                       \
    {                                                                                                              \
        sizeof(nvfp4r_settings), 0, 0, 0, NVFP4R_SCORE_UNSET, NVFP4R_WEIGHT_SCORE, 0, 0, NVFP4R_GROUP_TOP2_SUM, 0, \
            1e-20f, 1.0f, 0.0f, 0, 0, 0.0f, NVFP4R_PRECISION_UNSET, NVFP4R_BLOCK_AMAX, 0.0f, 0                     \
    }

/* The settings of a known model ("deepseek-v4-pro", "qwen3-30b" ...). Unknown: NVFP4R_INVALID_ARGUMENT naming the presets. */
nvfp4r_status nvfp4r_settings_preset(const char* name, nvfp4r_settings* settings);
/* Number of presets, and their names in the order of the README's table; NULL past the end. */
uint32_t nvfp4r_preset_count(void);
const char* nvfp4r_preset_name(uint32_t index);
/* The settings that a checkpoint's config.json states. Null or absent keys keep their neutral meaning (no groups, no
 * scaling); an unknown scoring function is refused by name. `path`: the checkpoint's folder or its config.json. */
nvfp4r_status nvfp4r_settings_from_checkpoint(const char* path, nvfp4r_settings* settings);

/* ---- gate: the router's weights ----------------------------------------------------------------------------------- */

typedef struct nvfp4r_gate nvfp4r_gate;

typedef struct nvfp4r_gate_options {
    size_t size;
    const char* tensor;        /* name of the gate's weight tensor; NULL: found by the layer and the known names */
    int32_t refuse_bf16_bias;  /* 1: a bias stored in bf16 is refused instead of widened */
    int32_t repair_nan_scales; /* 1: NaN block scales become 0 instead of a refusal */
} nvfp4r_gate_options;
#define NVFP4R_GATE_OPTIONS_INIT \
    { sizeof(nvfp4r_gate_options), NULL, 0, 0 }

/* Loads one layer's gate from a safetensors file, an index file or a checkpoint folder. Only that gate's bytes are read. */
nvfp4r_status nvfp4r_gate_load(const char* path, int32_t layer, const nvfp4r_gate_options* options, nvfp4r_gate** gate);

/* A gate from the caller's memory; everything is copied before the call returns. Either `weight` or 1..3 NVFP4 terms. */
typedef struct nvfp4r_gate_desc {
    size_t size;
    uint32_t experts, hidden;
    const void* weight; /* [E, K] in weight_type BF16, F16 or F32 */
    nvfp4r_dtype weight_type;
    int64_t weight_stride;                   /* elements from row to row; 0: K */
    uint32_t terms;                          /* NVFP4 terms, 0..3; all share global_scale */
    const uint8_t* codes[NVFP4R_MAX_TERMS];  /* [E, K/2] */
    const uint8_t* scales[NVFP4R_MAX_TERMS]; /* e4m3, in scale_layout */
    nvfp4r_scale_layout scale_layout;
    float global_scale; /* finite and positive */
    nvfp4r_scale_rule scale_rule;
    float input_scale;          /* calibrated global scale of the tokens under the same rule; 0: none */
    const float* bias;          /* [E] selection bias, may be NULL */
    const float* linear_bias;   /* [E] added to the logit, may be NULL */
    const float* image_bias;    /* [E] used instead of bias where image_mask is set, may be NULL */
    const float* expert_factor; /* [E] multiplies the final weight, may be NULL */
    const void* tid2eid;        /* [V, table_k] hash table of expert ids, may be NULL */
    nvfp4r_dtype table_type;    /* I32 or I64 */
    uint64_t vocabulary;        /* V */
    uint32_t table_k;
} nvfp4r_gate_desc;
#define NVFP4R_GATE_DESC_INIT                                                                                   \
    {                                                                                                           \
        sizeof(nvfp4r_gate_desc), 0, 0, NULL, NVFP4R_DTYPE_UNSET, 0, 0, {NULL, NULL, NULL}, {NULL, NULL, NULL}, \
            NVFP4R_SCALES_LINEAR, 0.0f, NVFP4R_SCALE_MULTIPLIES, 0.0f, NULL, NULL, NULL, NULL, NULL,            \
            NVFP4R_DTYPE_UNSET, 0, 0                                                                            \
    }
nvfp4r_status nvfp4r_gate_create(const nvfp4r_gate_desc* desc, nvfp4r_gate** gate);
void nvfp4r_gate_destroy(nvfp4r_gate* gate); /* NULL is fine; routers made from it live on */

typedef struct nvfp4r_gate_info {
    size_t size;
    uint32_t experts, hidden;
    nvfp4r_dtype weight_type; /* as stored; E2M1 for a packed gate */
    uint32_t terms;
    int32_t layer; /* -1: from memory */
    int32_t has_bias, has_linear_bias, has_image_bias, has_expert_factor, has_table;
    uint64_t vocabulary;
    uint32_t table_k;
} nvfp4r_gate_info;
#define NVFP4R_GATE_INFO_INIT \
    { sizeof(nvfp4r_gate_info), 0, 0, NVFP4R_DTYPE_UNSET, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
nvfp4r_status nvfp4r_gate_get_info(const nvfp4r_gate* gate, nvfp4r_gate_info* info);

/* ---- router ------------------------------------------------------------------------------------------------------- */

typedef struct nvfp4r_router nvfp4r_router;

typedef enum nvfp4r_device NVFP4R_INT_ENUM {
    NVFP4R_DEVICE_AUTO = 0, /* a GPU that a kernel fits, else the CPU */
    NVFP4R_DEVICE_CPU = 1,
    NVFP4R_DEVICE_CUDA = 2,
    NVFP4R_DEVICE_SIM = 3 /* the GPU kernel on the simulator */
} nvfp4r_device;

typedef enum nvfp4r_cpu_arithmetic NVFP4R_INT_ENUM {
    NVFP4R_CPU_EXACT = 0,   /* exact sums in double, rounded once to f32: the oracle */
    NVFP4R_CPU_HARDWARE = 1 /* block-scaled MMA steps of K = 64 as Blackwell rounds them, k ascending */
} nvfp4r_cpu_arithmetic;

typedef struct nvfp4r_router_options {
    size_t size;
    nvfp4r_device device;
    int32_t ordinal;  /* which GPU: in its context current to the creating thread, else in its primary one */
    uint32_t threads; /* CPU device: 0: one per core */
    nvfp4r_cpu_arithmetic cpu_arithmetic;
    /* Tile shape of the GPU kernels; 0: the plan chooses. A shape that does not fit is refused with the limit it breaks. */
    uint32_t tokens_per_tile, k_split, k_tile, stages;
    int32_t
        programmatic_launch; /* 1: programmatic dependent launch: weights are fetched before the stream's previous kernel ends */
    int32_t synchronise; /* 1: wait after every launch and report its fault (debugging) */
} nvfp4r_router_options;
#define NVFP4R_ROUTER_OPTIONS_INIT \
    { sizeof(nvfp4r_router_options), NVFP4R_DEVICE_AUTO, 0, 0, NVFP4R_CPU_EXACT, 0, 0, 0, 0, 0, 0 }

/* Builds a router: quantises the gate where the precision asks for it and moves it to the device. `options` may be NULL. */
nvfp4r_status nvfp4r_router_create(const nvfp4r_gate* gate, const nvfp4r_settings* settings,
                                   const nvfp4r_router_options* options, nvfp4r_router** router);
/* Compiles and loads every kernel variant that calls of up to `max_tokens` need, so that later calls neither compile nor
 * allocate (needed before a stream capture). Where there is no NVRTC it loads the kernels built into the library, and a
 * call that needs another one is refused. Nothing to do on the CPU. */
nvfp4r_status nvfp4r_router_prepare(nvfp4r_router* router, int64_t max_tokens);
void nvfp4r_router_destroy(nvfp4r_router* router); /* NULL is fine; the caller has finished its streams */
/* One line: device, kernel, precision, tile shape. Valid as long as the router. */
const char* nvfp4r_router_description(const nvfp4r_router* router);

typedef enum nvfp4r_memory NVFP4R_INT_ENUM {
    NVFP4R_MEMORY_HOST = 0,  /* pointers are host memory; a GPU device stages them, waits, and ignores `stream` */
    NVFP4R_MEMORY_DEVICE = 1 /* pointers are device memory; asynchronous on `stream`, no allocation, no wait */
} nvfp4r_memory;

/* Bits of nvfp4r_call.error_flag. */
#define NVFP4R_FLAG_BAD_TABLE_ID 1u  /* a tid2eid entry outside [0, E), or a token id outside [0, V) */
#define NVFP4R_FLAG_BAD_FORCED_ID 2u /* a forced id outside [0, E) */

typedef struct nvfp4r_call {
    size_t size;
    int64_t tokens; /* M, 0..2^24; 0 succeeds and touches nothing */
    nvfp4r_memory memory;
    void* stream; /* CUstream of the router's context, with device memory; graphs that run at once: one each */

    /* Inputs. */
    const void* hidden; /* [M, K] F32, BF16, F16, or E2M1 codes [M, K/2] */
    nvfp4r_dtype hidden_type;
    int64_t hidden_stride;        /* elements from row to row; 0: K */
    const uint8_t* hidden_scales; /* E2M1 only: e4m3, in hidden_scale_layout */
    nvfp4r_scale_layout hidden_scale_layout;
    float hidden_global_scale;         /* E2M1 only: multiplier for all tokens, or ... */
    const float* hidden_global_scales; /* ... [M], one per token */
    const int32_t* num_valid;          /* [1]: rows at and past it are padding */
    const uint8_t* mask;               /* [M]: 0 = padding row */
    const uint8_t* image_mask;         /* [M]: 1 = the gate's image_bias applies */
    const void* token_ids;             /* [M], for gates with a hash table */
    nvfp4r_dtype token_id_type;        /* I32 or I64 */
    const int32_t* forced_ids;         /* [M, k]: use these ids */
    int64_t forced_stride;
    const int32_t*
        logit_to_physical;        /* [E, replicas]; slot (row + rank) mod count is taken, slot 0 if batch_invariant */
    const int32_t* replica_count; /* [E] */
    uint32_t replicas;

    /* Outputs. Row width is k + shared_slots; capacities count elements, 0: not checked. */
    void* weights; /* [M, width] F32 or BF16 */
    nvfp4r_dtype weights_type;
    int64_t weights_stride, weights_capacity;
    void* ids; /* [M, width] I32, I64 or PACKED */
    nvfp4r_dtype ids_type;
    int64_t ids_stride, ids_capacity;
    float* logits; /* [M, E], optional; after soft cap and linear bias */
    int64_t logits_stride;
    float* scores; /* [M, E], optional; after the score function */
    int64_t scores_stride;
    void* logical_ids; /* [M, k] I16 or I32, optional; before the replica map */
    nvfp4r_dtype logical_ids_type;
    int64_t logical_ids_stride;
    int32_t* tokens_per_expert; /* [E], optional; physical ids of routed slots, [experts_physical] with a replica map */
    uint32_t experts_physical;  /* 0: E */
    int32_t* permutation; /* [M*k rounded up per expert to permutation_tile], optional: slots row*k + rank sorted by
                                   expert, then by slot; -1 in the padding */
    int64_t permutation_capacity;
    uint32_t permutation_tile;  /* 0 or 1: no padding */
    int32_t* expert_offsets;    /* [experts + 1], where each expert's part of the permutation starts */
    uint8_t* hidden_codes_out;  /* [M, K/2], optional: the tokens' first NVFP4 term */
    uint8_t* hidden_scales_out; /* in hidden_scales_out_layout; padding bytes are written as 0 */
    nvfp4r_scale_layout hidden_scales_out_layout;
    float* hidden_global_scales_out; /* [M] */
    uint32_t* error_flag;            /* [1], optional: NVFP4R_FLAG_ bits are or-ed in */
} nvfp4r_call;

#define NVFP4R_CALL_INIT                                                                                            \
    {                                                                                                               \
        sizeof(nvfp4r_call), 0, NVFP4R_MEMORY_HOST, NULL, NULL, NVFP4R_DTYPE_UNSET, 0, NULL, NVFP4R_SCALES_LINEAR,  \
            0.0f, NULL, NULL, NULL, NULL, NULL, NVFP4R_DTYPE_UNSET, NULL, 0, NULL, NULL, 0, NULL, NVFP4R_F32, 0, 0, \
            NULL, NVFP4R_I32, 0, 0, NULL, 0, NULL, 0, NULL, NVFP4R_I32, 0, NULL, 0, NULL, 0, 0, NULL, NULL, NULL,   \
            NVFP4R_SCALES_LINEAR, NULL, NULL                                                                        \
    }

/* Routes M tokens. Outputs appear whole or not at all: on any status but NVFP4R_OK nothing was written (host memory) or
 * launched (device memory). */
nvfp4r_status nvfp4r_route(nvfp4r_router* router, const nvfp4r_call* call);

#ifdef __cplusplus
}
#endif
#endif
