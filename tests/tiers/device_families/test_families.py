"""Tests all reference outputs of transformers on the emulated device, of which the core tests a few lines per family:
from a folder and from a GGUF file, and each step of a graph compared with the same step run eagerly."""

import device_shards


def test_all_lines_of_all_families():
    device_shards.build()
    device_shards.run(device_shards.FAMILIES, seeds=1)
