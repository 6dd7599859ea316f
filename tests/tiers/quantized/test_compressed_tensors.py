"""compressed-tensors reads the folders that `pagoda quantize` writes: its compressors unpack them, and the weights are
within half a step of the type from the model's."""

import json
import subprocess

import pytest
import torch
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.quantization import QuantizationScheme
from conftest import binary
from safetensors.torch import load_file, save_file

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
}
MATRICES = {
    "self_attn.q_proj": (64, 64),
    "self_attn.k_proj": (32, 64),
    "self_attn.v_proj": (32, 64),
    "self_attn.o_proj": (64, 64),
    "mlp.gate_proj": (160, 64),
    "mlp.up_proj": (160, 64),
    "mlp.down_proj": (64, 160),
}
# The largest error of a weight, as a share of the largest weight with the same scale. A scale in bfloat16 is off by up
# to a 256th of itself, which changes the largest numbers by the same share. The scales of w4a16 minimise the error, and
# clip weights beyond -8 and 7 times the scale.
MOST = {"w8a8": 0.5 / 127 + 1 / 256, "w4a16": None, "fp8": 1 / 16 + 1 / 256, "mxfp4": 1 / 3}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    torch.manual_seed(0)
    weights = {name: 0.1 * torch.randn(96, 64) for name in ("model.embed_tokens.weight", "lm_head.weight")}
    weights["model.norm.weight"] = torch.ones(64)
    for layer in range(CONFIG["num_hidden_layers"]):
        for name in ("input_layernorm", "post_attention_layernorm"):
            weights[f"model.layers.{layer}.{name}.weight"] = torch.ones(64)
        for name, shape in MATRICES.items():
            weights[f"model.layers.{layer}.{name}.weight"] = 0.1 * torch.randn(*shape)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.mark.parametrize("kind", list(MOST))
def test_compressed_tensors_reads_it(kind, model, tmp_path):
    out = tmp_path / "out"
    subprocess.run([binary(), "quantize", model, "--type", kind, "-o", out], check=True, timeout=120)
    how = json.loads((out / "config.json").read_text())["quantization_config"]
    scheme = QuantizationScheme.model_validate(how["config_groups"]["group_0"])
    assert (scheme.input_activations is not None) == (kind in ("w8a8", "fp8"))
    compressor = BaseCompressor.get_value_from_registry(how["format"])
    before, after = load_file(model / "model.safetensors"), load_file(out / "model.safetensors")
    for layer in range(CONFIG["num_hidden_layers"]):
        for name, shape in MATRICES.items():
            module = f"model.layers.{layer}.{name}"
            parts = {key[len(module) + 1 :]: after.pop(key) for key in list(after) if key.startswith(module + ".")}
            scale = parts["weight_scale"]
            values = compressor.decompress(parts, scheme)["weight"].float()
            weights = before.pop(module + ".weight")
            assert values.shape == weights.shape == shape
            group = scheme.weights.group_size or shape[1]
            largest = weights.reshape(shape[0], -1, group).abs().amax(-1).repeat_interleave(group, 1)
            most = largest * (MOST[kind] or 0)
            if kind == "w4a16":
                scales = scale.float().repeat_interleave(group, 1)
                weights = weights.clamp(-8 * scales, 7 * scales)
                most = 0.501 * scales + values.abs() / 256  # which come in bfloat16
            assert ((values - weights).abs() <= most).all(), module
    assert after.keys() == before.keys()
    for name, weights in before.items():
        assert torch.equal(after[name], weights), name
