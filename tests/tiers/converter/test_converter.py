"""Every family's row, and random changes of the rows, through llama.cpp's converter (see net.py). For other configs:
PAGODA_CONVERTER_SEEDS="FIRST COUNT" (default 1000 200)."""

import json
import os
import pathlib
import subprocess

import net
import numpy as np
import pytest


def wrong_of(seeds):
    lines = []
    outcomes = net.run(seeds, say=lines.append)
    print(dict(outcomes))
    assert outcomes["right"] > 0, "nothing was compared"
    return [line for line in lines if line.split()[1] == "WRONG"]


def test_every_row_as_it_stands():
    assert not (wrong := wrong_of(range(len(net.rows())))), "\n".join(wrong)


def test_random_changes():
    first, count = map(int, os.environ.get("PAGODA_CONVERTER_SEEDS", "1000 200").split())
    assert not (wrong := wrong_of(range(first, first + count))), "\n".join(wrong)


# Earlier findings of net.py: a family, the changes to its row, and the result.
@pytest.mark.parametrize(
    "name, changes, wanted", json.loads(pathlib.Path(__file__).with_name("regressions.json").read_text())
)
def test_what_was_wrong_once(tmp_path, name, changes, wanted):
    row = {**net.families.FAMILIES[name], **changes}
    if "rope_parameters" in changes:
        row.pop("rope_scaling", None)
    outcome, why = net.judge(name, row, [], 1, tmp_path)
    assert outcome == wanted, why


# Families with layers other than attention, and the metadata in which the converter's file differs: an unlimited
# context without rotation, sections of Qwen 3.5's own sizes, an interval of layers for models that have none.
BESIDE_ATTENTION = {
    "qwen3_next": (),
    "qwen3_5": ("rope.dimension_sections",),
    "qwen3_5_moe": ("rope.dimension_sections", "full_attention_interval"),
    "lfm2": (),
    "lfm2_moe": (),
    "granite_hybrid": ("context_length",),
    "falcon_h1": (),
    "falcon_h1_norm": (),
    "deepseek_v2": (),
    "deepseek_v2_lite": (),
    "deepseek_v3": (),
    "glm4_moe_lite": ("expert_group_count", "expert_group_used_count"),
    "youtu": (),
    "minicpm3": (),
    "mamba2": (),
    "jamba": (),
    "falcon_mamba": (),
}


@pytest.mark.parametrize("name", BESIDE_ATTENTION)
def test_quantize_writes_what_the_converter_writes(tmp_path, name):
    row = dict(net.families.FAMILIES[name])
    row.pop("mlp_only_layers", None)  # the converter has no names for these tensors
    ours, theirs = tmp_path / "ours.gguf", tmp_path / "theirs.gguf"
    net.write_folder(name, row, 1, tmp_path / "model")
    try:
        net.convert(tmp_path / "model", theirs)
    except AttributeError as error:
        pytest.skip(f"the package cannot convert it: {error}")
    subprocess.run([net.BINARY, "quantize", tmp_path / "model", "--type", "F32", "-o", ours], check=True, timeout=60)
    (own, own_tensors), (said, tensors) = net.content(ours), net.content(theirs)
    for key, value in said.items():
        if not key.startswith(("general.", "tokenizer.")) and not key.endswith(BESIDE_ATTENTION[name] or ("none",)):
            assert own.get(key) == value, key
    assert own["general.architecture"] == said["general.architecture"]
    assert own_tensors.keys() == tensors.keys()
    for tensor, (shape, values) in tensors.items():
        assert own_tensors[tensor][0] == shape, tensor
        made = np.frombuffer(own_tensors[tensor][1], np.float32)
        assert np.allclose(made, np.frombuffer(values, np.float32), rtol=1e-5, atol=0), tensor
