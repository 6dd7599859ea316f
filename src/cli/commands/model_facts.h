#pragma once
// Facts of `pagoda inspect` and docs/models.md about a model beyond its file: its family, what was tested,
// the memory that keys and values take, and how fast this machine could be at most. Threads: any.
#include "models/describe.h"

namespace pagoda {

// Fills `description.facts`, where there is a configuration; what only models/ finds wrong makes it
// unsupported.
void add_facts(Description& description);
// Reads this machine's memory for a moment, for the estimate of speed.
void measure_memory(Description& description);

// By group of layers; empty for encoders.
std::vector<DescribedKvGroup> described_kv_groups(const ModelInfo& model);

}  // namespace pagoda
