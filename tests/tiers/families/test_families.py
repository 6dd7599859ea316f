"""What the core tries with one or two families of each kind, with all of them: on ranks, in chunks, after recomputation
and swapping, from the prefix cache, in virtual memory, and from weights quantised by every method. And the default
model with longer texts than in the core, and with keys and values of 8 bits."""

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
