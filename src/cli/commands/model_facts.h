#pragma once
// Facts for `pagoda inspect` and docs/models.md beyond a model's file: its family, what was tested, the
// memory of keys and values, and an upper bound on its speed on this machine. Threads: any.
#include "models/describe.h"

namespace pagoda {

// Fills `description.facts` if there is a configuration. Marks the model as unsupported if models/ rejects
// it.
void add_facts(Description& description);
// Measures this machine's memory bandwidth briefly, for the estimate of speed.
void measure_memory(Description& description);

// By group of layers; empty for encoders.
std::vector<DescribedKvGroup> described_kv_groups(const ModelInfo& model);

}  // namespace pagoda
