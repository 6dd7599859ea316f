#pragma once
// A Hugging Face folder as ModelSource: config.json, one .safetensors file or the shards of an index.
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "loader/model_files.h"
#include "loader/model_source.h"
#include "loader/safetensors.h"

namespace pagoda {

Result<std::unique_ptr<ModelSource>> open_hugging_face(const ModelFiles& files, std::string_view overrides,
                                                       std::string_view rope = {});

// model.safetensors.index.json's weight_map: tensor name -> shard's file name. corrupt_data: not such a
// file, or a shard name that is not a plain file name (a model must not make us read elsewhere).
Result<std::map<std::string, std::string>> parse_safetensors_index(std::string_view text);

// The method by which weights of these names are quantised, whether or not config.json says so; empty: they
// are not.
std::string_view quantization_of(const std::vector<SafetensorsTensor>& tensors);

}  // namespace pagoda
