#pragma once
// The scales that a folder has for keys and values in 8-bit floats, one of keys and one of values for each
// layer: x = scale * number (kernels/kv_layout.h). Whoever calibrates a model writes them beside the weights:
// compressed-tensors `self_attn.k_scale` (and `k_proj.output_scale` at first), modelopt `k_proj.k_scale`,
// older folders one `kv_scale` for both. Files without them mean 1. Threads: any. Errors: unimplemented, by
// the tensor's name: scales of heads, or of integers; corrupt_data: a scale that is not a number above 0.
#include <string_view>
#include <vector>

#include "base/status.h"
#include "loader/model_source.h"
#include "models/model_info.h"
#include "models/weight_names.h"
#include "models/weights/weight_reader.h"

namespace pagoda {

struct KvScales {
  float key = 1, value = 1;
  bool in_file = false;
  bool operator==(const KvScales&) const = default;
};

// Those of the layer whose tensors begin with `prefix`.
Result<KvScales> kv_scales_of_layer(const ModelSource& source, const WeightReader& reader,
                                    const WeightNames& names, std::string_view prefix);

// Those of all layers, by layer; of one without keys of its own those of the layer whose keys it reads.
Result<std::vector<KvScales>> kv_scales(const ModelSource& source, const ModelInfo& model);

}  // namespace pagoda
