"""The routers of DeepSeek-V4, DeepSeek-V3 and Qwen3 in torch on the CPU, after the models' published code, against ours.

    torch_gates.py ROUTER_BINARY

It shares nothing with route_oracle.py: logits in float32 by torch, torch's own sigmoid, softplus, softmax and topk, and a
reader of safetensors of its own. An interpreter without torch says so and ends with code 77.
"""
import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    sys.exit(77)

DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "I32": torch.int32, "I64": torch.int64}
TOKENS = 64
# float32 sums of 7168 products in two orders; ids may differ only where two ranks are nearer than this.
LOGIT_ATOL, RANK_MARGIN, WEIGHT_RTOL = 2e-5, 1e-4, 1e-4


def read_safetensors(path):
    data = Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    tensors = {}
    for name, entry in json.loads(data[8:8 + length]).items():
        if name != "__metadata__":
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            flat = torch.frombuffer(bytearray(data[begin:end]), dtype=DTYPES[entry["dtype"]])
            tensors[name] = flat.reshape(entry["shape"])
    return tensors


def deepseek_v3(logits, bias, config):
    """Gate.forward and MoEGate's noaux_tc of DeepSeek-V3: sigmoid, groups by the sum of their two best."""
    scores = torch.sigmoid(logits)
    rank = scores + bias
    groups = rank.view(len(rank), config["n_group"], -1)
    kept = groups.topk(2, dim=-1)[0].sum(-1).topk(config["topk_group"], dim=-1)[1]
    mask = torch.ones(groups.shape[:2], dtype=torch.bool).scatter_(1, kept, False)
    rank = groups.masked_fill(mask.unsqueeze(-1), float("-inf")).flatten(1)
    ids = rank.topk(config["num_experts_per_tok"], dim=-1)[1]
    return rank, ids, lambda chosen: normalised(scores.gather(1, chosen)) * config["routed_scaling_factor"]


def deepseek_v4(logits, bias, config):
    """Gate.forward of DeepSeek-V4: the square root of softplus, no groups."""
    scores = F.softplus(logits).sqrt()
    rank = scores + bias
    ids = rank.topk(config["num_experts_per_tok"], dim=-1)[1]
    return rank, ids, lambda chosen: normalised(scores.gather(1, chosen)) * config["routed_scaling_factor"]


def qwen3(logits, bias, config):
    """Qwen3MoeSparseMoeBlock: softmax over all experts, then topk, then norm_topk_prob."""
    scores = F.softmax(logits, dim=1, dtype=torch.float)
    ids = scores.topk(config["num_experts_per_tok"], dim=-1)[1]
    return scores, ids, lambda chosen: normalised(scores.gather(1, chosen))


def normalised(weights):
    return weights / weights.sum(dim=-1, keepdim=True)


MODELS = {"deepseek-v4-pro": deepseek_v4, "deepseek-v4-flash": deepseek_v4, "deepseek-v3": deepseek_v3,
          "qwen3-235b": qwen3, "qwen3-30b": qwen3}


def only(tensors, layer, endings):
    names = [n for n in tensors if f".{layer}." in n and n.endswith(endings)]
    return tensors[names[0]].float() if len(names) == 1 else None


def check(binary, name, folder):
    """The number of rows whose ids are torch's own; the rest differ in near ties."""
    model = folder / "model"
    made = json.loads(subprocess.check_output(
        [binary, "sample", "--preset", name, "--tokens", str(TOKENS), "--out", model, "--json"]))
    layer = made["layers"][-1]  # one that routes by its scores
    out = folder / "out.safetensors"
    subprocess.check_output([binary, "route", model, "--layer", str(layer), "--hidden", model / "hidden.safetensors",
                             "--device", "cpu", "--precision", "bf16", "--with", "logits", "--out", out, "--json"])
    ours = read_safetensors(out)
    tensors = {}
    for path in model.glob("*.safetensors"):
        tensors.update(read_safetensors(path))
    config = json.loads((model / "config.json").read_text())
    weight = only(tensors, layer, ("gate.weight",))
    bias = only(tensors, layer, ("e_score_correction_bias", "ffn.gate.bias"))
    assert weight is not None, f"{name}: no gate in layer {layer}"
    assert (bias is None) == (MODELS[name] is qwen3), f"{name}: bias of layer {layer}"
    logits = F.linear(tensors["hidden"].float(), weight)
    torch.testing.assert_close(ours["logits"], logits, rtol=1e-5, atol=LOGIT_ATOL)
    rank, ids, weigh = MODELS[name](logits, bias, config)
    chosen = ours["ids"].long()
    same = (chosen.sort(1)[0] == ids.sort(1)[0]).all(1)
    for row in (~same).nonzero().flatten().tolist():
        assert len(set(chosen[row].tolist())) == chosen.shape[1], f"{name}: row {row} names an expert twice"
        least = rank[row].gather(0, chosen[row]).min()
        lost = rank[row].gather(0, ids[row]).min() - least
        assert lost <= RANK_MARGIN, f"{name}: row {row}: {chosen[row]}, torch {ids[row]}"
    torch.testing.assert_close(ours["weights"], weigh(chosen), rtol=WEIGHT_RTOL, atol=1e-7)
    return int(same.sum())


def main():
    rows = 0
    for name in MODELS:
        with tempfile.TemporaryDirectory() as folder:
            same = check(sys.argv[1], name, Path(folder))
        assert same >= TOKENS * 9 // 10, f"{name}: only {same} of {TOKENS} rows have torch's experts"
        rows += same
    print(f"torch gates: ok, torch {torch.__version__}, {len(MODELS)} models, {rows} of {TOKENS * len(MODELS)} rows the same")


if __name__ == "__main__":
    main()
