"""Formats against the official libraries: safetensors, numpy and ml_dtypes.

    formats.py prepare DIR   writes files with the official libraries
    formats.py verify DIR    reads what the library made of them, and recomputes the quantisation in numpy

tests/format/oracle_test.cpp runs between the two.
"""
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
from safetensors import deserialize
from safetensors.numpy import save_file

E4M3 = ml_dtypes.float8_e4m3fn
BF16 = ml_dtypes.bfloat16
BLOCK = 16
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=np.float32)
ROWS, COLS = 130, 176  # neither a multiple of the 128x4 scale atom


DTYPES = {"F32": np.float32, "F16": np.float16, "BF16": BF16, "F8_E4M3": E4M3, "U8": np.uint8, "I16": np.int16,
          "I32": np.int32, "I64": np.int64}


def load_file(path):
    """The official parser; its numpy front end does not know every dtype in all versions."""
    return {name: np.frombuffer(bytes(t["data"]), dtype=DTYPES[t["dtype"]]).reshape(t["shape"])
            for name, t in deserialize(path.read_bytes())}


def tensors():
    rng = np.random.default_rng(20260101)
    floats = rng.standard_normal((5, 7)).astype(np.float32)
    floats[0, :4] = [np.nan, np.inf, -0.0, 1e-45]
    return {
        "f32": floats,
        "f16": floats.astype(np.float16),
        "bf16": floats.astype(BF16),
        "f8": np.arange(256, dtype=np.uint8).view(E4M3),
        "u8": rng.integers(0, 256, (3, 2, 4), dtype=np.uint8),
        "i16": rng.integers(-(2**15), 2**15, 11, dtype=np.int16),
        "i32": rng.integers(-(2**31), 2**31, (1, 9), dtype=np.int32),
        "i64": rng.integers(-(2**63), 2**63 - 1, (2, 2), dtype=np.int64),
        "scalar": np.array(2.5, dtype=np.float32),
        "empty": np.zeros((0, 8), dtype=np.float32),
    }


def known_to_numpy():
    return {name: a for name, a in tensors().items() if name not in ("bf16", "f8")}


def gate():
    """Gaussian rows with outlier columns, a zero block, a zero row, tiny values, and rows of exact ties."""
    rng = np.random.default_rng(7)
    w = rng.standard_normal((ROWS, COLS)).astype(np.float32) * np.float32(0.02)
    w[:, ::37] *= 12
    w[3, 16:32] = 0
    w[4] = 0
    w[5] *= np.float32(1e-6)
    w[6] = np.tile(np.repeat(E2M1, 2), COLS // BLOCK) * np.float32(0.03125)
    w[7, ::2] = -0.0
    return w


def prepare(folder):
    save_file(tensors(), folder / "official.safetensors")
    save_file({"w": gate()}, folder / "gate.safetensors")
    np.savez(folder / "official.stored.npz", **known_to_numpy())
    np.savez_compressed(folder / "official.deflated.npz", **known_to_numpy())
    for version in (1, 2, 3):
        with open(folder / f"official.v{version}.npy", "wb") as file:
            np.lib.format.write_array(file, tensors()["f32"], version=(version, 0))
    np.save(folder / "official.bf16.npy", tensors()["bf16"])


def same(a, b, what):
    assert a.shape == b.shape, f"{what}: shape {a.shape}, expected {b.shape}"
    assert a.dtype == b.dtype, f"{what}: dtype {a.dtype}, expected {b.dtype}"
    assert a.tobytes() == b.tobytes(), f"{what}: values differ"


def verify_files(folder):
    expected = tensors()
    ours = load_file(folder / "ours.safetensors")
    assert ours.keys() == expected.keys(), f"names {ours.keys()}"
    archive = np.load(folder / "ours.npz")
    for name, array in expected.items():
        same(ours[name], array, f"ours.safetensors {name}")
        for source, read in (("npz", archive[name]), ("npy", np.load(folder / f"ours.{name}.npy"))):
            # numpy gives types that it does not know as raw bytes.
            same(read.view(array.dtype) if read.dtype.kind == "V" else read, array, f"ours.{source} {name}")
    for kind in ("stored", "deflated"):
        read = load_file(folder / f"ours.from_{kind}.safetensors")
        for name, array in known_to_numpy().items():
            same(read[name], array, f"{kind} npz {name}")
    for version in (1, 2, 3):
        same(load_file(folder / f"ours.from_v{version}.safetensors")["x"], expected["f32"], f"npy version {version}")
    same(load_file(folder / "ours.from_bf16.safetensors")["x"], expected["bf16"], "bf16 npy")


def to_e2m1(x):
    """Nearest code by distance in float64, ties to the even code, saturating; the sign is bit 3."""
    distance = np.abs(np.abs(x.astype(np.float64))[..., None] - E2M1.astype(np.float64))
    nearest = distance == distance.min(axis=-1, keepdims=True)
    even_first = np.array([0, 2, 4, 6, 1, 3, 5, 7])
    code = even_first[np.argmax(nearest[..., even_first], axis=-1)]
    return code | np.where(np.signbit(x), 8, 0)


def scale_value(scale):
    return scale.view(E4M3).astype(np.float32)


def codes_under(blocks, scale, global_scale):
    """Codes under given scale bytes [..., 1]; all divisions in float32."""
    step = scale_value(scale) * global_scale
    with np.errstate(divide="ignore", invalid="ignore"):
        codes = to_e2m1((blocks / step[..., None]).astype(np.float32))
    return np.where(step[..., None] == 0, 0, codes)


def values_of(codes, scale):
    magnitude = E2M1[codes & 7].astype(np.float64) * scale_value(scale).astype(np.float64)[..., None]
    return np.where(codes & 8, -magnitude, magnitude)


def squared_error(blocks, scale, global_scale):
    value = values_of(codes_under(blocks, scale, global_scale), scale)
    return ((blocks.astype(np.float64) - value * np.float64(global_scale)) ** 2).sum(axis=-1)


def to_e4m3(x):
    return np.minimum(x, np.float32(448)).astype(E4M3).view(np.uint8)


def amax_scale(blocks, global_scale, divisor=6.0):
    return to_e4m3(np.abs(blocks).max(axis=-1) / np.float32(divisor) / global_scale)


def global_scale_of(w):
    return np.abs(w).max() / np.float32(6 * 448)


def left_of(blocks, codes, scale, global_scale):
    product = values_of(codes, scale) * np.float64(global_scale)
    return (blocks.astype(np.float64) - product).astype(np.float32)


def swizzle(scale):
    """The 128x4 layout by reshaping, not by an offset formula: atoms of 4 groups of 32 rows and 4 columns."""
    rows, cols = scale.shape
    padded = np.zeros((-(-rows // 128) * 128, -(-cols // 4) * 4), dtype=np.uint8)
    padded[:rows, :cols] = scale
    atoms = padded.reshape(padded.shape[0] // 128, 4, 32, padded.shape[1] // 4, 4)
    return atoms.transpose(0, 3, 2, 1, 4).reshape(-1)


def verify_quantised(folder):
    w = gate()
    global_scale = global_scale_of(w)
    for rule in ("amax", "least_squares", "four_over_six"):
        packed = load_file(folder / f"ours.quantised_{rule}.safetensors")
        assert packed["gate.weight_scale_2"] == global_scale, f"{rule}: global scale"
        blocks = w.reshape(ROWS, COLS // BLOCK, BLOCK)
        for term in (1, 2, 3):
            what = f"{rule}, term {term}"
            base = "gate" if term == 1 else f"gate.term{term}"
            scale = packed[f"{base}.weight_scale"].view(np.uint8)
            first = amax_scale(blocks, global_scale)
            if rule == "amax":
                assert (scale == first).all(), f"{what}: block scales"
            else:
                chosen = squared_error(blocks, scale, global_scale)
                assert (chosen <= squared_error(blocks, first, global_scale) * (1 + 1e-12)).all(), f"{what}: worse"
            if rule == "four_over_six":
                four = amax_scale(blocks, global_scale, 4.0)
                assert ((scale == first) | (scale == four)).all(), f"{what}: neither scale"
                assert (chosen <= squared_error(blocks, four, global_scale) * (1 + 1e-12)).all(), f"{what}: worse"
            codes = codes_under(blocks, scale, global_scale)
            pairs = packed[f"{base}.weight"].reshape(ROWS, COLS // BLOCK, BLOCK // 2)
            assert ((pairs & 15) == codes[..., 0::2]).all(), f"{what}: even codes"
            assert ((pairs >> 4) == codes[..., 1::2]).all(), f"{what}: odd codes"
            assert (packed[f"swizzled{term}"] == swizzle(scale)).all(), f"{what}: 128x4 layout"
            blocks = left_of(blocks, codes, scale, global_scale)


if __name__ == "__main__":
    command, directory = sys.argv[1], Path(sys.argv[2])
    if command == "prepare":
        prepare(directory)
    else:
        verify_files(directory)
        verify_quantised(directory)
        print("formats: the official libraries agree")
