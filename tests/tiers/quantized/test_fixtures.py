"""compressed-tensors' compressors reproduce the committed folders of tests/fixtures/quantized bit for bit, so the core
tests read the tool's own output."""

import pathlib
import sys

import pytest
import torch
from safetensors.torch import load_file

FIXTURES = pathlib.Path(__file__).resolve().parents[2] / "fixtures"
sys.path.insert(0, str(FIXTURES))
import make_quantized

COMPRESSED = [
    name
    for name, (_, config) in make_quantized.CASES.items()
    if config.get("quantization_config", {}).get("quant_method") == "compressed-tensors"
]


@pytest.mark.parametrize("name", COMPRESSED)
def test_the_tool_makes_the_fixture(name, tmp_path, monkeypatch):
    monkeypatch.setattr(make_quantized, "HERE", tmp_path)
    monkeypatch.setattr(make_quantized, "SCHEMES", {})  # their reference outputs take minutes
    make_quantized.make(name)
    made, committed = (load_file(folder / name / "model.safetensors") for folder in (tmp_path, FIXTURES / "quantized"))
    assert made.keys() == committed.keys()
    for key, tensor in made.items():
        assert tensor.dtype == committed[key].dtype and torch.equal(tensor, committed[key]), key
