"""Packs a Hugging Face folder in bfloat16 into the formats of AWQ or GPTQ, rounding to nearest. Needs a Python with
torch and safetensors, as those of the peers: PYTHON bench/peers/pack_folder.py awq|gptq FOLDER OUT"""

import json
import pathlib
import shutil
import sys

import torch
from safetensors.torch import load_file, save_file

GROUP = 64
ORDER = {"awq": (0, 2, 4, 6, 1, 3, 5, 7), "gptq": range(8)}
HOW = {
    "awq": {"quant_method": "awq", "version": "gemm", "bits": 4, "group_size": GROUP, "zero_point": True},
    "gptq": {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "sym": True, "desc_act": False},
}


def words(codes, order):
    """Packs eight neighbours of the last axis into an int32."""
    out = sum(codes[..., which::8].long() << (4 * place) for place, which in enumerate(order))
    return torch.where(out >= 2**31, out - 2**32, out).int()


def pack(method, weight):
    grouped = weight.float().reshape(weight.shape[0], -1, GROUP)
    if method == "awq":
        low, high = grouped.amin(-1).clamp(max=0), grouped.amax(-1).clamp(min=0)
        scales = ((high - low) / 15).half().float().clamp(min=1e-6)
        zeros = (-low / scales).round().clamp(0, 15)
    else:
        scales = (grouped.abs().amax(-1) / 7).half().float().clamp(min=1e-6)
        zeros = torch.full_like(scales, 8)
    codes = (grouped / scales[..., None] + zeros[..., None]).round().clamp(0, 15).reshape(weight.shape).T
    qweight = words(codes, ORDER[method]) if method == "awq" else words(codes.T.contiguous(), ORDER[method]).T
    stored = zeros.T if method == "awq" else zeros.T - 1
    parts = {"qweight": qweight, "qzeros": words(stored, ORDER[method]), "scales": scales.T.half()}
    if method == "gptq":
        parts["g_idx"] = (torch.arange(weight.shape[1]) // GROUP).int()
    return {name: part.contiguous() for name, part in parts.items()}


def main():
    method, folder, out = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    shutil.copytree(folder, out, ignore=shutil.ignore_patterns("*.safetensors"))
    tensors = {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        module = name.removesuffix(".weight")
        if module.endswith("_proj"):
            tensors |= {f"{module}.{part}": value for part, value in pack(method, tensor).items()}
        else:
            tensors[name] = tensor
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((out / "config.json").read_text()) | {"quantization_config": HOW[method]}
    (out / "config.json").write_text(json.dumps(config))


if __name__ == "__main__":
    main()
