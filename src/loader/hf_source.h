#pragma once
// A Hugging Face folder as ModelSource: config.json, one .safetensors file or the shards of an index; or the
// same in Mistral's own form (mistral_folder.h).
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

// model.safetensors.index.json's weight_map: tensor name -> shard's file name. corrupt_data: not such a
// file, or a shard name that is not a plain file name, but for "./" or an absolute folder, which is dropped
// (a model must not make us read elsewhere).
Result<std::map<std::string, std::string>> parse_safetensors_index(std::string_view text);
// The same of the file.
Result<std::map<std::string, std::string>> read_safetensors_index(const std::string& path);

// Read of config.json and files like it, some of which list every module of a mixture.
constexpr std::size_t kMaxConfigBytes = std::size_t{64} << 20;

// The tensors of a folder as a model is read from them.
struct ReadableTensors {
  std::unique_ptr<QuantizedTensors> quantized;
  std::map<std::string, TensorView, std::less<>> tensors;    // all, quantised ones among them
  std::map<std::string, TensorView, std::less<>> kv_scales;  // is_kv_scale(); U8: of a type that is not read
  std::map<std::string, std::int64_t> bytes_by_type;         // stored bytes
};

// unimplemented: one of a type that is not supported; corrupt_data: a quantised one that is damaged.
Result<ReadableTensors> readable_tensors(const Quantization& said, const StoredTensors& stored,
                                         const AlternatingRows& alternating = {});
// The same of a folder of either form, whose config.json is `config`.
Result<ReadableTensors> readable_tensors(const ModelFiles& files, std::string_view config,
                                         const Quantization& said, const StoredTensors& stored);

// The text of the folder's config.json, or what says the same in Mistral's own form.
Result<std::string> folder_config(const ModelFiles& files);

}  // namespace pagoda
