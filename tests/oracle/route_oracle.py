"""Routing against float64 numpy: for every preset the CLI makes a sample, routes it, and this file recomputes the rows.

    route_oracle.py ROUTER_BINARY [PRESET...]

The rules below come from the models' published code (DeepSeek-V3 and V4 Gate, Qwen3 and Mixtral sparse blocks, gpt-oss and
Llama-4 routers), not from the library. Tokens and gate enter as bf16, so the logits are plain matrix products.
"""
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import ml_dtypes
import numpy as np
from safetensors import deserialize

DTYPES = {"F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16, "I32": np.int32, "I64": np.int64}
TOKENS = 16
# Two computations of a score in fp32 and float64 may differ by some units in the last place.
SCORE_MARGIN = 2e-6

# name: (K, E, k, groups, kept, score, bias, renormalise, scaling)
MODELS = {
    "deepseek-v4-pro": (7168, 384, 6, 1, 1, "sqrtsoftplus", True, True, 2.5),
    "deepseek-v4-flash": (4096, 256, 6, 1, 1, "sqrtsoftplus", True, True, 1.5),
    "deepseek-v4.1-flash": (5120, 384, 6, 1, 1, "sqrtsoftplus", True, True, 1.5),
    "deepseek-v3": (7168, 256, 8, 8, 4, "sigmoid", True, True, 2.5),
    "kimi-k2": (7168, 384, 8, 1, 1, "sigmoid", True, True, 2.827),
    "kimi-k3": (7168, 896, 16, 1, 1, "sigmoid", True, True, 1.0),
    "glm-5": (6144, 256, 8, 1, 1, "sigmoid", True, True, 2.5),
    "glm-4.5": (5120, 160, 8, 1, 1, "sigmoid", True, True, 2.5),
    "minimax-m2.5": (3072, 256, 8, 1, 1, "sigmoid", True, True, 1.0),
    "minimax-m3": (6144, 128, 4, 1, 1, "sigmoid", True, True, 2.0),
    "qwen3-235b": (4096, 128, 8, 1, 1, "softmax", False, True, 1.0),
    "qwen3-30b": (2048, 128, 8, 1, 1, "softmax", False, True, 1.0),
    "qwen3-next": (2048, 512, 10, 1, 1, "softmax", False, True, 1.0),
    "qwen3.5-397b": (4096, 512, 10, 1, 1, "softmax", False, True, 1.0),
    "gpt-oss-120b": (2880, 128, 4, 1, 1, "softmax-after", False, False, 1.0),
    "llama4-maverick": (5120, 128, 1, 1, 1, "sigmoid-after", False, False, 1.0),
    "mixtral-8x22b": (6144, 8, 2, 1, 1, "softmax", False, True, 1.0),
    "nemotron-3-nano": (2688, 128, 6, 1, 1, "sigmoid", True, True, 2.5),
    "nemotron-3-ultra": (8192, 512, 22, 1, 1, "sigmoid", True, True, 5.0),
    "step-3.5-flash": (4096, 288, 8, 1, 1, "sigmoid", True, True, 3.0),
    "hunyuan-v3": (4096, 192, 8, 1, 1, "sigmoid", True, True, 2.826),
    "mimo-v2-flash": (4096, 256, 8, 1, 1, "sigmoid", True, True, 1.0),
    "longcat-flash": (6144, 768, 12, 1, 1, "softmax", True, False, 6.0),
    "olmoe": (2048, 64, 8, 1, 1, "softmax", False, False, 1.0),
    "ling-flash-2": (4096, 256, 8, 8, 4, "sigmoid", True, True, 2.5),
}


def load_folder(folder):
    tensors = {}
    for path in sorted(folder.glob("*.safetensors")):
        for name, t in deserialize(path.read_bytes()):
            tensors[name] = np.frombuffer(bytes(t["data"]), dtype=DTYPES[t["dtype"]]).reshape(t["shape"])
    return tensors


def of_layer(tensors, layer, ending):
    names = [n for n in tensors if re.search(rf"layers\.{layer}\.", n) and re.search(ending, n)]
    assert len(names) <= 1, names
    return tensors[names[0]] if names else None


def score(kind, logits):
    if kind == "sigmoid":
        return 1 / (1 + np.exp(-logits))
    if kind == "sqrtsoftplus":
        return np.sqrt(np.logaddexp(0, logits))
    if kind == "softmax":
        e = np.exp(logits - logits.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)
    return logits


def choose(rank, k, groups, kept):
    """Ids of the k best by rank, equal ones by the lower id; DeepSeek-V3's group limit."""
    rank = rank.copy()
    if groups > 1:
        for row in rank:
            parts = row.reshape(groups, -1)
            best = np.sort(parts, axis=1)[:, -2:].sum(1)
            for g in np.argsort(-best, kind="stable")[kept:]:
                parts[g] = -np.inf
    return np.argsort(-rank, axis=1, kind="stable")[:, :k]


def weigh(kind, ids, logits, acts, renormalise, scaling):
    chosen = np.take_along_axis(logits, ids, 1)
    if kind == "softmax-after":
        weights = score("softmax", chosen)
    elif kind == "sigmoid-after":
        weights = score("sigmoid", chosen)
    else:
        weights = np.take_along_axis(acts, ids, 1)
    if renormalise:
        weights = weights / (weights.sum(1, keepdims=True) + 1e-20)
    return weights * scaling


def compare(name, out, tensors, layer):
    hidden_size, experts, k, groups, kept, kind, use_bias, renormalise, scaling = MODELS[name]
    weight = of_layer(tensors, layer, r"(gate|router|classifier)(\.gate)?\.weight$|gate\.wg\.weight$")
    assert weight is not None and weight.shape == (experts, hidden_size), f"{name}: gate of layer {layer}"
    hidden = tensors["hidden"].astype(np.float64)
    # The bf16 precision rounds a gate that is stored in f32 or f16.
    logits = hidden @ weight.astype(ml_dtypes.bfloat16).astype(np.float64).T
    linear = of_layer(tensors, layer, r"router\.bias$")
    if kind == "softmax-after" and linear is not None:
        logits = logits.astype(np.float32).astype(np.float64) + linear.astype(np.float64)
    np.testing.assert_allclose(out["logits"], logits, rtol=2e-7, atol=1e-6, err_msg=f"{name}: logits")

    acts = score(kind, logits)
    table = of_layer(tensors, layer, r"tid2eid$")
    if table is not None:
        ids = table[tensors["token_ids"]].astype(np.int64)
        assert (out["ids"] == ids).all(), f"{name}: ids of the hash layer {layer}"
    else:
        bias = of_layer(tensors, layer, r"e_score_correction_bias$|expert_bias$|router_bias$|ffn\.gate\.bias$") if use_bias else None
        assert not use_bias or bias is not None, f"{name}: bias of layer {layer}"
        rank = acts.astype(np.float32)
        if bias is not None:
            rank = rank + bias.astype(np.float32)  # selection in fp32 is part of the contract
        rank = rank.astype(np.float64)
        ids = choose(rank, k, groups, kept)
        margin = SCORE_MARGIN * max(1.0, np.abs(rank).max())
        for row, (ours, theirs) in enumerate(zip(ids, out["ids"])):
            assert len(set(theirs)) == k and 0 <= min(theirs) and max(theirs) < experts, f"{name}: row {row} {theirs}"
            for a, b in zip(ours, theirs):
                near = groups == 1 and abs(rank[row, a] - rank[row, b]) <= margin
                assert a == b or near, f"{name}: row {row}: {theirs}, expected {ours}"
    weights = weigh(kind, out["ids"].astype(np.int64), logits, acts, renormalise, scaling)
    np.testing.assert_allclose(out["weights"], weights, rtol=4e-6, atol=1e-9, err_msg=f"{name}: weights")


def main():
    binary = sys.argv[1]
    names = sys.argv[2:] or list(MODELS)
    listed = json.loads(subprocess.check_output([binary, "presets", "--json"]))
    known = {p.get("name") or p.get("preset") for p in (listed if isinstance(listed, list) else listed["presets"])}
    assert known == set(MODELS), f"presets differ from the contract: {sorted(known ^ set(MODELS))}"
    rows = 0
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            sample = json.loads(subprocess.check_output(
                [binary, "sample", "--preset", name, "--tokens", str(TOKENS), "--out", folder / "model", "--json"]))
            tensors = load_folder(folder / "model")
            for layer in {sample["layers"][0], sample["layers"][-1]}:
                out = folder / "out.safetensors"
                subprocess.check_output(
                    [binary, "route", folder / "model", "--layer", str(layer), "--hidden",
                     folder / "model" / "hidden.safetensors", "--device", "cpu", "--precision", "bf16", "--with", "logits",
                     "--out", out, "--json"])
                routed = {n: np.frombuffer(bytes(t["data"]), dtype=DTYPES[t["dtype"]]).reshape(t["shape"])
                          for n, t in deserialize(out.read_bytes())}
                compare(name, routed, tensors, layer)
                rows += TOKENS
    print(f"routing oracle: ok, {len(names)} presets, {rows} rows")


if __name__ == "__main__":
    main()
