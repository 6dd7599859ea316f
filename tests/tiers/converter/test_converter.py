"""Every family's row, and random changes of them, through llama.cpp's converter: net.py says how. More configs, and
others:
PAGODA_CONVERTER_SEEDS="FIRST COUNT" (1000 200 unless given)."""

import json
import os
import pathlib

import net
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


# Findings of the net: a family, the changes to its row, and the result.
@pytest.mark.parametrize(
    "name, changes, wanted", json.loads(pathlib.Path(__file__).with_name("regressions.json").read_text())
)
def test_what_was_wrong_once(tmp_path, name, changes, wanted):
    row = {**net.families.FAMILIES[name], **changes}
    if "rope_parameters" in changes:
        row.pop("rope_scaling", None)
    outcome, why = net.judge(name, row, [], 1, tmp_path)
    assert outcome == wanted, why
