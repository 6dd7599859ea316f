#pragma once
// What a layer of attention takes of a file on its way in: the rows of query, key and value one below the
// other, in the orders that files have them, and what stands beside. For the CPU's layer (attention.cc) and a
// device's. Errors: the loader's status. Threads: the loader's caller.
#include <string>
#include <vector>

#include "models/layer_part.h"

namespace pagoda {

struct AttentionWeights {
  Matrices query_key_value;  // query above key above value (above the queries' gates)
  std::string name;          // of that matrix
  // Of a head, or of each one after the other, or of all together: as QueryKeyNorm says. Empty: none.
  std::vector<float> query_norm, key_norm;
  std::vector<float> sinks;  // of query heads; empty: none
};

// Of the heads `shard`; the layer of `place`.
AttentionWeights read_attention(const AttentionConfig& config, const HeadShard& shard,
                                const LayerPlace& place, const DecoderConfig& decoder, WeightLoader& loader);

}  // namespace pagoda
