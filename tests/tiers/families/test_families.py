"""Tests all families, of which the core tests one or two of each kind: on ranks, in chunks, after recomputation and
swapping, from the prefix cache, in virtual memory, and with weights quantised by every method. Also tests the default
model with longer texts than the core, and with 8-bit keys and values."""

import device_shards
import pytest

PROGRAMS = {
    "model_runner_test": "Families/*",
    "engine_test": "Families/*",
    "cli_test": "DefaultModel.*:PerplexityCommand.TheGoldenText*",
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_all_that_the_core_samples(program):
    device_shards.build(programs=PROGRAMS)
    device_shards.run(PROGRAMS[program], seeds=1, program=program)
