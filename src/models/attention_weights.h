#pragma once
// The weights of an attention layer on their way in: the rows of query, key and value one below the other, in
// the orders that files have them, and the vectors beside. For the CPU's layer (attention.cc) and a device's.
// Errors: the loader's status. Threads: the loader's caller.
#include <string>
#include <vector>

#include "models/layer_part.h"

namespace pagoda {

struct AttentionWeights {
  Matrices query_key_value;  // query above key above value (above the queries' gates)
  std::string name;          // that matrix's
  // For a head, or for each one after the other, or for all together: as QueryKeyNorm says. Empty: none.
  std::vector<float> query_norm, key_norm;
  std::vector<float> sinks;  // for query heads; empty: none
};

// Reads the heads `shard` of the layer of `place`.
AttentionWeights read_attention(const AttentionConfig& config, const HeadShard& shard,
                                const LayerPlace& place, const DecoderConfig& decoder, WeightLoader& loader);

}  // namespace pagoda
