"""Every family's row, and random changes of them, through llama.cpp's converter: net.py says how. More configs, and others:
PAGODA_CONVERTER_SEEDS="FIRST COUNT" (1000 200 unless given)."""
import os

import net


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
