#include "loader/hf_source.h"

#include <boost/json.hpp>
#include <filesystem>
#include <set>
#include <utility>

#include "base/assign_or_return.h"
#include "base/log.h"
#include "base/strings.h"
#include "base/xxh64.h"
#include "loader/file_source.h"
#include "loader/json_object.h"
#include "loader/json_overrides.h"
#include "loader/mistral_folder.h"
#include "loader/model_files.h"
#include "loader/printable.h"
#include "loader/safetensors.h"
#include "loader/weight_types.h"

namespace pagoda {
namespace {

class HuggingFaceSource final : public FileSource {
 public:
  struct Parts {
    std::string path, name, overrides, config;
    std::string_view config_file;
    std::string absent_file;
    std::vector<TensorFile> files;
    ReadableTensors readable;
    bool quantize_activations = true;
  };
  explicit HuggingFaceSource(Parts parts)
      : FileSource(parts.path, std::move(parts.files), std::move(parts.readable.tensors)),
        parts_(std::move(parts)) {}

  ModelFormat format() const override { return ModelFormat::hugging_face; }
  std::string_view config_json() const override { return parts_.config; }
  std::string name() const override { return parts_.name; }
  std::string absent_file() const override { return parts_.absent_file; }
  std::string weight_type() const override { return describe_types(parts_.readable.bytes_by_type); }
  std::optional<std::string> side_file(std::string_view name) const override {
    const std::size_t slash = name.find('/');
    if (!plain_file_name(name.substr(slash == std::string_view::npos ? 0 : slash + 1)) ||
        (slash != std::string_view::npos && !plain_file_name(name.substr(0, slash))))
      return std::nullopt;
    return optional_text_file(in_folder(parts_.path, name));
  }
  std::string identity() const override {
    // Everything that determines the meaning of the tensors' bytes: config.json, and the file of each tensor.
    std::string text = concat("hugging_face config ", xxh64(side_file(parts_.config_file).value_or("")),
                              " index ", xxh64(side_file("model.safetensors.index.json").value_or("")));
    for (const std::string_view each : kQuantizationFiles)
      if (const auto beside = side_file(each)) text += concat(" quantised ", xxh64(*beside));
    if (!parts_.quantize_activations) text += " activations as they are";
    if (!parts_.overrides.empty()) text += concat(" overrides ", xxh64(parts_.overrides));
    return text + identities("\n");
  }
  const TensorView* find_kv_scale(std::string_view name) const override {
    const auto found = parts_.readable.kv_scales.find(name);
    return found == parts_.readable.kv_scales.end() ? nullptr : &found->second;
  }
  LinearArithmetic inputs_of(const TensorView& tensor) const override {
    return parts_.quantize_activations ? parts_.readable.quantized->inputs_of(tensor) : LinearArithmetic{};
  }
  Status bring_in(const TensorView& tensor, ThreadPool* pool) const override {
    PAGODA_RETURN_IF_ERROR(FileSource::bring_in(tensor, pool));
    return parts_.readable.quantized->bring_in(tensor, pool);
  }
  void give_back(const TensorView& tensor) const override {
    FileSource::give_back(tensor);
    for (const TensorView& stored : parts_.readable.quantized->give_back(tensor))
      FileSource::give_back(stored);
  }

 private:
  Parts parts_;
};

// Returns a shard's name without "./", or without an absolute folder of another machine: shards are in the
// folder of their index.
std::string name_in_folder(std::string_view shard) {
  const bool absolute = shard.starts_with('/') && shard.ends_with(".safetensors");
  while (shard.starts_with("./")) shard.remove_prefix(2);
  return std::string(absolute ? shard.substr(shard.rfind('/') + 1) : shard);
}

struct Weights {
  std::vector<TensorFile> files;
  StoredTensors stored;
  std::string absent_file = {};
};

Status add_file(const std::string& path, Weights& weights) {
  PAGODA_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::open(path));
  weights.files.push_back(std::move(file));
  return ok_status();
}

// The index determines which files to read, and the file to prefer if two have a tensor; each file lists its
// own tensors. Handmade or stale indices name tensors and files (of draft layers, of image towers) that do
// not exist: an error only if the model needs them.
Status open_shards(const ModelFiles& files, Weights& weights) {
  PAGODA_ASSIGN_OR_RETURN(const auto index, read_safetensors_index(files.index));
  std::set<std::string_view> shards;
  for (const auto& [name, shard] : index) shards.insert(shard);
  Status absent;
  std::vector<std::string_view> opened;
  for (const std::string_view shard : shards) {
    if (Status status = add_file(in_folder(files.path, shard), weights); status.ok()) {
      opened.push_back(shard);
    } else if (status.code() != StatusCode::not_found) {
      return status;
    } else if (absent.ok()) {
      weights.absent_file = shard;
      absent = std::move(status);
    }
  }
  if (opened.empty()) return absent;
  for (std::size_t i = 0; i < opened.size(); ++i)
    for (const FileTensor& tensor : weights.files[i].tensor_list()) {
      const auto said = index.find(tensor.name);
      const auto [at, is_new] = weights.stored.emplace(tensor.name, tensor);
      if (is_new) continue;
      if (said == index.end())
        return corrupt_data(concat("tensor '", printable(tensor.name), "' is in two files of '",
                                   printable(files.path), "', and the index has neither"));
      if (said->second == opened[i]) at->second = tensor;
    }
  if (!absent.ok())
    log_warning("start", concat("the index of '", printable(files.path),
                                "' names files that are not there: ", printable(weights.absent_file)));
  return ok_status();
}

Status open_files(const ModelFiles& files, Weights& weights) {
  for (const std::string& path : files.weights) PAGODA_RETURN_IF_ERROR(add_file(path, weights));
  for (const TensorFile& file : weights.files)
    for (const FileTensor& tensor : file.tensor_list())
      if (!weights.stored.emplace(tensor.name, tensor).second)
        return corrupt_data(concat("tensor '", printable(tensor.name), "' is in two files of '",
                                   printable(files.path), "', which has no index"));
  return ok_status();
}

}  // namespace

Result<std::map<std::string, std::string>> parse_safetensors_index(std::string_view text) {
  namespace json = boost::json;
  PAGODA_ASSIGN_OR_RETURN(const json::object document, parse_json_object(text, "the index"));
  const json::value* map = document.if_contains("weight_map");
  if (map == nullptr || !map->is_object()) return corrupt_data("has no 'weight_map' object");
  std::map<std::string, std::string> index;
  for (const auto& [name, shard] : map->get_object()) {
    const std::string file = shard.is_string() ? name_in_folder(shard.get_string()) : std::string();
    if (!plain_file_name(file))
      return corrupt_data(concat("weight_map['", printable(name), "'] is not a plain file name"));
    index.emplace(name, file);
  }
  if (index.empty()) return corrupt_data("'weight_map' is empty");
  return index;
}

Result<std::map<std::string, std::string>> read_safetensors_index(const std::string& path) {
  constexpr std::size_t kMaxIndexBytes = std::size_t{128} << 20;  // a mixture may have over 200,000 tensors
  PAGODA_ASSIGN_OR_RETURN(const std::string text, read_text_file(path, kMaxIndexBytes));
  auto index = parse_safetensors_index(text);
  if (!index) return index.error().annotate(printable(path));
  return index;
}

Result<ReadableTensors> readable_tensors(const Quantization& said, const StoredTensors& stored,
                                         const AlternatingRows& alternating) {
  PAGODA_ASSIGN_OR_RETURN(const Quantization how, quantization_by_tensors(said, stored));
  PAGODA_ASSIGN_OR_RETURN(std::unique_ptr<QuantizedTensors> quantized,
                          QuantizedTensors::find(how, stored, alternating));
  ReadableTensors out{.quantized = std::move(quantized), .tensors = {}, .kv_scales = {}, .bytes_by_type = {}};
  out.tensors = out.quantized->tensors();
  for (const auto& [name, tensor] : stored) {
    const bool kv_scale = is_kv_scale(name);
    if (kv_scale)
      out.kv_scales.emplace(name, TensorView{tensor.dtype.value_or(DType::u8), tensor.shape, tensor.data});
    if (kv_scale || out.quantized->parts().contains(name)) {
      const bool whole = how.method == QuantizationMethod::none;
      out.bytes_by_type[whole ? std::string(tensor.type) : how.text()] += tensor.bytes;
      continue;
    }
    if (const Status supported = check_supported(tensor); !supported.ok())
      return how.method == QuantizationMethod::none
                 ? supported
                 : corrupt_data(concat("tensor '", printable(name), "' of dtype ", tensor.type,
                                       " belongs to a quantised weight that is not there"));
    if (!tensor.dtype) continue;  // bytes, such as masks in old files
    out.bytes_by_type[std::string(tensor.type)] += tensor.bytes;
    out.tensors.emplace(name, TensorView{*tensor.dtype, tensor.shape, tensor.data});
  }
  return out;
}

Result<ReadableTensors> readable_tensors(const ModelFiles& files, std::string_view config,
                                         const Quantization& said, const StoredTensors& stored) {
  if (!files.mistral) return readable_tensors(said, stored);
  PAGODA_ASSIGN_OR_RETURN(const StoredTensors renamed, with_hugging_face_names(stored));
  return readable_tensors(said, renamed, alternating_rows(config, renamed));
}

Result<std::string> folder_config(const ModelFiles& files) {
  if (!files.mistral) return read_text_file(in_folder(files.path, "config.json"), kMaxConfigBytes);
  const std::string path = in_folder(files.path, kMistralConfig);
  PAGODA_ASSIGN_OR_RETURN(const std::string params, read_text_file(path, kMaxConfigBytes));
  Result<std::string> config = config_of_mistral_params(params);
  if (!config) return config.error().annotate(printable(files.path));
  return config;
}

Result<std::unique_ptr<ModelSource>> open_hugging_face(const ModelFiles& files, std::string_view overrides,
                                                       std::string_view rope, bool quantize_activations) {
  if (files.mistral)
    log_info("start", concat("the model is read in Mistral's own form (", kMistralConfig, ")"));
  if (!files.left_out.empty())
    log_info("start", concat("config.json and its weights are read; ", kMistralConfig, " and ",
                             printable(files.left_out), " beside them are not"));
  PAGODA_ASSIGN_OR_RETURN(const std::string config_text, folder_config(files));
  const Result<std::string> overridden = with_overrides(config_text, overrides);
  if (!overridden) return overridden.error().annotate("--hf-overrides");
  PAGODA_ASSIGN_OR_RETURN(const std::string turned, with_rope(*overridden, rope_theta_of(overrides)));
  PAGODA_ASSIGN_OR_RETURN(std::string config, with_rope(turned, rope));

  Weights weights;
  Result<Quantization> said = read_quantization_files(config, [&](std::string_view name) {
    return optional_text_file(in_folder(files.path, name), kMaxConfigBytes);
  });
  if (!said) return said.error().annotate(printable(files.path));
  PAGODA_RETURN_IF_ERROR(files.index.empty() ? open_files(files, weights) : open_shards(files, weights));
  Result<ReadableTensors> readable = readable_tensors(files, config, *said, weights.stored);
  if (!readable) return readable.error().annotate(printable(files.path));
  return std::unique_ptr<ModelSource>(std::make_unique<HuggingFaceSource>(
      HuggingFaceSource::Parts{.path = files.path,
                               .name = files.name,
                               .overrides = concat(overrides, rope),
                               .config = std::move(config),
                               .config_file = files.mistral ? kMistralConfig : "config.json",
                               .absent_file = std::move(weights.absent_file),
                               .files = std::move(weights.files),
                               .readable = *std::move(readable),
                               .quantize_activations = quantize_activations}));
}

}  // namespace pagoda
