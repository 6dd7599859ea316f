"""The gguf package as the reader of what `pagoda quantize` writes."""

import json
import pathlib
import subprocess

import gguf
import numpy as np
import pytest
from conftest import binary, default_model, small_model

BITS_OF_THE_PACKAGE = ("Q8_0", "Q4_0", "Q5_0", "F16", "BF16")
MOST_LOST = {"Q4_K": 0.09, "Q6_K": 0.025}
NEW = ("general.file_type", "general.quantization_version")


@pytest.mark.parametrize("kind", ["Q4_K", "Q6_K", "Q8_0", "Q4_0", "BF16", "F16"])
@pytest.mark.parametrize("model", [small_model, default_model])
def test_the_gguf_package_reads_it(model, kind, tmp_path):
    out = tmp_path / "out.gguf"
    subprocess.run([binary(), "quantize", model(), "--type", kind, "-o", out], check=True, timeout=600)
    before, after = gguf.GGUFReader(model()), gguf.GGUFReader(out)

    def metadata(reader):
        return {
            name: (field.types, field.contents())
            for name, field in reader.fields.items()
            if not name.startswith("GGUF.") and name not in NEW
        }

    assert metadata(before) == metadata(after)
    assert [t.name for t in before.tensors] == [t.name for t in after.tensors]
    kinds = set()
    for old, new in zip(before.tensors, after.tensors, strict=True):
        assert list(old.shape) == list(new.shape)
        kinds.add(new.tensor_type.name)
        if old.tensor_type == new.tensor_type:
            assert np.array_equal(old.data, new.data)
            continue
        values = gguf.dequantize(old.data, old.tensor_type)
        if new.tensor_type.name in BITS_OF_THE_PACKAGE:
            expected = gguf.quantize(values, new.tensor_type)
            assert np.array_equal(np.asarray(expected).view(np.uint8), new.data.view(np.uint8)), new.name
            continue
        back = gguf.dequantize(new.data, new.tensor_type)
        lost = np.linalg.norm(back - values) / np.linalg.norm(values)
        assert lost < MOST_LOST[new.tensor_type.name], new.name
    assert "F32" in kinds  # the norms
    assert kind in kinds or model is small_model  # whose rows are not whole blocks of 256


MIXTRAL = pathlib.Path(__file__).resolve().parents[2] / "fixtures/tiny_models/mixtral"


def test_the_gguf_package_reads_what_a_folder_becomes(tmp_path):
    out = tmp_path / "out.gguf"
    subprocess.run([binary(), "quantize", MIXTRAL, "--type", "F32", "-o", out], check=True, timeout=600)
    config = json.loads((MIXTRAL / "config.json").read_text())
    reader = gguf.GGUFReader(out)
    fields = {name: field.contents() for name, field in reader.fields.items()}
    assert fields["general.architecture"] == "llama"
    assert fields["llama.block_count"] == config["num_hidden_layers"]
    assert fields["llama.expert_count"] == config["num_local_experts"]
    assert fields["general.file_type"] == 0
    shapes = {tensor.name: list(tensor.shape) for tensor in reader.tensors}
    hidden, inner, experts = config["hidden_size"], config["intermediate_size"], config["num_local_experts"]
    assert shapes["blk.0.ffn_down_exps.weight"] == [inner, hidden, experts]
    assert shapes["blk.0.ffn_gate_exps.weight"] == [hidden, inner, experts]
    known = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config["num_hidden_layers"])
    assert all(known.get_name(name, (".weight", ".bias")) == name for name in shapes)
