#pragma once
// A Hugging Face folder as a ModelSource: config.json, and one .safetensors file or the shards of an index;
// or the same in Mistral's own form (mistral_folder.h).
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "loader/model_files.h"
#include "loader/model_source.h"
#include "loader/quantized_tensors.h"
#include "loader/safetensors.h"

namespace pagoda {

Result<std::unique_ptr<ModelSource>> open_hugging_face(const ModelFiles& files, std::string_view overrides,
                                                       std::string_view rope = {},
                                                       bool quantize_activations = true);

// Parses the weight_map of model.safetensors.index.json: tensor name -> shard's file name. corrupt_data: not
// such a file, or a shard name that is not a plain file name (a model must not make us read elsewhere). A
// leading "./" or absolute folder is dropped.
Result<std::map<std::string, std::string>> parse_safetensors_index(std::string_view text);
// The same for a file.
Result<std::map<std::string, std::string>> read_safetensors_index(const std::string& path);

// Limit on config.json and similar files; some list every module of a mixture.
constexpr std::size_t kMaxConfigBytes = std::size_t{64} << 20;

// A folder's tensors in the form in which a model reads them.
struct ReadableTensors {
  std::unique_ptr<QuantizedTensors> quantized;
  std::map<std::string, TensorView, std::less<>> tensors;    // including quantised weights
  std::map<std::string, TensorView, std::less<>> kv_scales;  // is_kv_scale(); U8: of an unsupported type
  std::map<std::string, std::int64_t> bytes_by_type;         // as stored
};

// unimplemented: a tensor has an unsupported type; corrupt_data: a quantised weight is damaged.
Result<ReadableTensors> readable_tensors(const Quantization& said, const StoredTensors& stored,
                                         const AlternatingRows& alternating = {});
// The same for a folder of either form; `config` is its config.json.
Result<ReadableTensors> readable_tensors(const ModelFiles& files, std::string_view config,
                                         const Quantization& said, const StoredTensors& stored);

// Returns the folder's config.json, or its equivalent in Mistral's own form.
Result<std::string> folder_config(const ModelFiles& files);

}  // namespace pagoda
