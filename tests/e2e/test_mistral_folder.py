"""A folder in Mistral's own format, without transformers' files: it is served with or without vLLM's flags, and
conversations are formatted as by Mistral's own programs."""

import json
import pathlib
import random
import shutil
import struct

import httpx
import pytest
from conftest import ROOT, serving

DIM, LAYERS, HEADS, KV_HEADS, HEAD, HIDDEN, VOCABULARY = 32, 2, 4, 2, 8, 48, 512
PARAMS = {
    "dim": DIM,
    "n_layers": LAYERS,
    "n_heads": HEADS,
    "n_kv_heads": KV_HEADS,
    "head_dim": HEAD,
    "hidden_dim": HIDDEN,
    "norm_eps": 1e-5,
    "vocab_size": VOCABULARY,
    "rope_theta": 1e6,
    "max_seq_len": 256,
}
BOS, BEGIN, END = 1, 3, 4  # <s>, [INST], [/INST]
FLAGS = ("--config-format", "mistral", "--load-format", "mistral", "--tokenizer-mode", "mistral")


def tensors():
    yield "tok_embeddings.weight", (VOCABULARY, DIM)
    yield "norm.weight", (DIM,)
    yield "output.weight", (VOCABULARY, DIM)
    for layer in range(LAYERS):
        for name, shape in {
            "attention.wq": (HEADS * HEAD, DIM),
            "attention.wk": (KV_HEADS * HEAD, DIM),
            "attention.wv": (KV_HEADS * HEAD, DIM),
            "attention.wo": (DIM, HEADS * HEAD),
            "attention_norm": (DIM,),
            "feed_forward.w1": (HIDDEN, DIM),
            "feed_forward.w2": (DIM, HIDDEN),
            "feed_forward.w3": (HIDDEN, DIM),
            "ffn_norm": (DIM,),
        }.items():
            yield f"layers.{layer}.{name}.weight", shape


def write_model(folder, seed):
    folder.mkdir(parents=True)
    draw, header, data = random.Random(seed), {}, b""
    for name, shape in tensors():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        values = struct.pack(f"<{count}f", *(draw.uniform(-0.3, 0.3) + (len(shape) == 1) for _ in range(count)))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    (folder / "consolidated.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "params.json").write_text(json.dumps(PARAMS))
    shutil.copy(ROOT / "tests/fixtures/tokenizers/ranks/tekken_special.json", folder / "tekken.json")
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("one") / "tiny", seed=1)


@pytest.mark.parametrize("flags", [(), FLAGS], ids=["by itself", "by vLLM's flags"])
def test_a_conversation(folder, flags):
    with serving(folder, *flags, "--served-model-name", "tiny") as server:
        assert any("Mistral's own form (params.json)" in line for line in server.log)
        prompt = httpx.post(
            server.url + "/tokenize", json={"model": "tiny", "messages": [{"role": "user", "content": "ab"}]}
        ).json()["tokens"]
        letters = httpx.post(
            server.url + "/tokenize", json={"model": "tiny", "prompt": "ab", "add_special_tokens": False}
        ).json()["tokens"]
        assert prompt == [BOS, BEGIN, *letters, END]
        answer = httpx.post(
            server.url + "/v1/chat/completions",
            json={"model": "tiny", "max_tokens": 5, "messages": [{"role": "user", "content": "ab"}]},
            timeout=60,
        ).json()
        assert answer["usage"]["prompt_tokens"] == len(prompt)


def fingerprint(folder):
    with serving(folder, "--served-model-name", "tiny") as server:
        body = {"model": "tiny", "prompt": [BOS, 40], "max_tokens": 1}
        return httpx.post(server.url + "/v1/completions", json=body, timeout=60).json()["system_fingerprint"]


def test_a_fingerprint_follows_from_the_weights(folder, tmp_path):
    """The fingerprint does not depend on the name or the path of the files."""
    copy = shutil.copytree(folder, tmp_path / "copy/tiny")
    other = write_model(pathlib.Path(tmp_path) / "other/tiny", seed=2)
    assert fingerprint(copy) == fingerprint(folder) != fingerprint(other)
