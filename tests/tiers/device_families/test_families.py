"""What the core tries with few lines of each family on the emulated device, with all of them: the goldens of
transformers, from a folder and from a GGUF file, and each step of a graph against the same step without."""

import device_shards


def test_all_lines_of_all_families():
    device_shards.build()
    device_shards.run(device_shards.FAMILIES, seeds=1)
