#pragma once
// A folder's scales of keys and values in 8-bit floats, one for keys and one for values per layer: x = scale
// * number (kernels/kv_layout.h). Calibration tools write them beside the weights: compressed-tensors
// `self_attn.k_scale` (earlier `k_proj.output_scale`), modelopt `k_proj.k_scale`, older folders one
// `kv_scale` for both. Absent scales are 1.
// Threads: any. Errors: unimplemented, naming the tensor: scales per head, or for integers; corrupt_data: a
// scale that is not a number above 0.
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

// The scales of the layer whose tensors begin with `prefix`.
Result<KvScales> kv_scales_of_layer(const ModelSource& source, const WeightReader& reader,
                                    const WeightNames& names, std::string_view prefix);

// The scales of all layers; a layer that reads another layer's keys has that layer's scales.
Result<std::vector<KvScales>> kv_scales(const ModelSource& source, const ModelInfo& model);

}  // namespace pagoda
