#!/usr/bin/env python3
"""Computes the perplexity of a W8A8 or FP8 folder of a Llama from the scheme's definition, independently of Pagoda.

  PYTHON bench/support/scheme_perplexity.py FOLDER TEXT [CONTEXT]     (torch, safetensors, tokenizers)

Quantised matrices have a scale per row of weights. Activations have a scale per token, largest / 127 or / 448, and are
rounded half to even. All other arithmetic is float32. Further rows change one thing at a time and show the perplexity,
the logarithm of the ratio to the first row with its standard error, and the mean KL divergence from the first row. The
first change is float64 instead of float32; its effect is an error that any computation of the scheme may have.
"""

import json
import math
import pathlib
import sys

import torch
from safetensors import safe_open
from tokenizers import Tokenizer

E4M3 = torch.float8_e4m3fn
SCHEME = {"dtype": torch.float32, "kv": None, "head": None, "weights": None}
VARIANTS = {
    "float32": {},
    "float64": {"dtype": torch.float64},
    "K and V in float16": {"kv": torch.float16},
    "head in bfloat16": {"head": torch.bfloat16},
    "dequantised weights in bfloat16": {"weights": torch.bfloat16},
    "the last three": {"kv": torch.float16, "head": torch.bfloat16, "weights": torch.bfloat16},
    "activations as they are": {"inputs": None},
}


def rounded(x, dtype):
    return x if dtype is None else x.to(dtype).to(x.dtype)


class Model:
    def __init__(self, folder):
        self.config = json.loads((folder / "config.json").read_text())
        self.tensors = {}
        for path in sorted(folder.glob("*.safetensors")):
            with safe_open(path, "pt") as file:
                self.tensors |= {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)

    def vector(self, name, how):
        return self.tensors[name + ".weight"].to(how["dtype"])

    def linear(self, name, x, how):
        """Returns x [tokens, inputs] times the module's matrix, as the scheme defines it."""
        codes = self.tensors[name + ".weight"]
        scale = self.tensors.get(name + ".weight_scale")
        if scale is None:
            return x @ codes.to(x.dtype).T
        values = codes.to(x.dtype)
        if how["weights"] is not None:
            values, scale = rounded(values * scale.to(x.dtype), how["weights"]), torch.ones(1)
        if how["inputs"] is None:
            return x @ values.T * scale.to(x.dtype).flatten()
        most = 127 if codes.dtype == torch.int8 else 448
        own = x.abs().amax(-1, keepdim=True) / most
        share = x / own.clamp(min=1e-30)
        numbers = share.round() if most == 127 else share.clamp(-448, 448).float().to(E4M3).to(x.dtype)
        return (numbers @ values.T) * own * scale.to(x.dtype).flatten()

    def norm(self, name, x, how):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + self.config["rms_norm_eps"]) * self.vector(name, how)

    def rotate(self, x):  # [tokens, heads, size]
        size = x.shape[-1]
        theta = self.config.get("rope_theta") or self.config["rope_parameters"]["rope_theta"]
        turns = torch.arange(len(x), dtype=torch.float64)[:, None] * theta ** (
            -torch.arange(0, size, 2, dtype=torch.float64) / size
        )
        cos, sin = turns.cos()[:, None].to(x.dtype), turns.sin()[:, None].to(x.dtype)
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def attention(self, name, x, how):
        heads, kv_heads = self.config["num_attention_heads"], self.config["num_key_value_heads"]
        each = [self.linear(f"{name}.{part}_proj", x, how).reshape(len(x), -1, x.shape[1] // heads) for part in "qkv"]
        query, key = self.rotate(each[0]), rounded(self.rotate(each[1]), how["kv"])
        value = rounded(each[2], how["kv"])
        key, value = (part.repeat_interleave(heads // kv_heads, 1) for part in (key, value))
        out = torch.nn.functional.scaled_dot_product_attention(
            query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1), is_causal=True
        )
        return self.linear(name + ".o_proj", out.transpose(0, 1).reshape(len(x), -1), how)

    def logprobs(self, ids, how):
        x = self.tensors["model.embed_tokens.weight"][ids].to(how["dtype"])
        for layer in range(self.config["num_hidden_layers"]):
            name = f"model.layers.{layer}."
            x = x + self.attention(name + "self_attn", self.norm(name + "input_layernorm", x, how), how)
            inner = self.norm(name + "post_attention_layernorm", x, how)
            gate, up = (self.linear(f"{name}mlp.{part}_proj", inner, how) for part in ("gate", "up"))
            x = x + self.linear(name + "mlp.down_proj", torch.nn.functional.silu(gate) * up, how)
        x = rounded(self.norm("model.norm", x, how), how["head"])
        head = "model.embed_tokens" if self.config["tie_word_embeddings"] else "lm_head"
        return (x @ self.vector(head, how).T).log_softmax(-1)


def main():
    folder, text = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).read_text()
    context = int(sys.argv[3]) if len(sys.argv) > 3 else 512
    ids = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(text, add_special_tokens=False).ids
    model = Model(folder)
    scored = {name: [] for name in VARIANTS}
    divergence = dict.fromkeys(VARIANTS, 0.0)
    with torch.inference_mode():
        for begin in range(0, len(ids) - 1, context):
            window = torch.tensor(ids[begin : begin + context])
            exact = None
            for name, changes in VARIANTS.items():
                logprobs = model.logprobs(window, SCHEME | {"inputs": True} | changes)[:-1].double()
                exact = logprobs if exact is None else exact
                divergence[name] += float((exact.exp() * (exact - logprobs)).sum())
                scored[name].append(-logprobs.gather(1, window[1:, None]).flatten())
    first = torch.cat(scored["float32"])
    print(f"{len(ids)} tokens, {len(first)} scored\n| arithmetic | perplexity | log of the ratio | error | KL |")
    print("|---|---:|---:|---:|---:|")
    for name, parts in scored.items():
        apart = torch.cat(parts) - first
        error = float(apart.std()) / math.sqrt(len(apart))
        row = (math.exp(float(torch.cat(parts).mean())), float(apart.mean()), error, divergence[name] / len(apart))
        print("| {} | {:.4f} | {:+.5f} | {:.5f} | {:.6f} |".format(name, *row))


if __name__ == "__main__":
    main()
