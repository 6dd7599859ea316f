#include "loader/hf_source.h"

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <utility>

#include "base/strings.h"
#include "base/xxh64.h"
#include "loader/json_overrides.h"
#include "loader/printable.h"
#include "loader/safetensors.h"
#include "loader/weight_types.h"

namespace pagoda {
namespace {

constexpr std::size_t kMaxConfigBytes = std::size_t{4} << 20;
constexpr std::size_t kMaxIndexBytes = std::size_t{16} << 20;

std::string in_folder(const std::string& folder, std::string_view name) {
  return (std::filesystem::path(folder) / name).string();
}

class HuggingFaceSource final : public ModelSource {
 public:
  HuggingFaceSource(std::string path, std::string name, std::string overrides, std::string config,
                    std::string weight_type, std::vector<SafetensorsFile> files,
                    std::map<std::string, TensorView, std::less<>> tensors)
      : path_(std::move(path)),
        name_(std::move(name)),
        overrides_(std::move(overrides)),
        config_(std::move(config)),
        weight_type_(std::move(weight_type)),
        files_(std::move(files)),
        tensors_(std::move(tensors)) {}

  ModelFormat format() const override { return ModelFormat::hugging_face; }
  std::string_view config_json() const override { return config_; }
  std::string name() const override { return name_; }
  std::string weight_type() const override { return weight_type_; }
  const TensorView* find(std::string_view name) const override {
    const auto tensor = tensors_.find(name);
    return tensor == tensors_.end() ? nullptr : &tensor->second;
  }
  std::vector<std::string> tensor_names() const override {
    std::vector<std::string> names;
    names.reserve(tensors_.size());
    for (const auto& [name, tensor] : tensors_) names.push_back(name);
    return names;
  }
  std::optional<std::string> side_file(std::string_view name) const override {
    const std::size_t slash = name.find('/');
    if (!plain_file_name(name.substr(slash == std::string_view::npos ? 0 : slash + 1)) ||
        (slash != std::string_view::npos && !plain_file_name(name.substr(0, slash))))
      return std::nullopt;
    Result<std::string> text = read_text_file(in_folder(path_, name));
    if (!text) return std::nullopt;
    return std::move(*text);
  }
  const std::string& path() const override { return path_; }
  std::string identity() const override {
    // Everything but the tensors' bytes that decides what they mean: config.json, and which file has which.
    std::string text = concat("hugging_face config ", xxh64(side_file("config.json").value_or("")), " index ",
                              xxh64(side_file("model.safetensors.index.json").value_or("")));
    if (!overrides_.empty()) text += concat(" overrides ", xxh64(overrides_));
    for (const SafetensorsFile& file : files_)
      text += concat("\n", file.file()->identity(header_bytes(*file.file(), file.tensor_list())));
    return text;
  }
  bool unchanged() const override {
    return std::ranges::all_of(files_, [](const SafetensorsFile& file) { return file.file()->unchanged(); });
  }
  void give_back(const TensorView& tensor) const override {
    for (const SafetensorsFile& file : files_)
      file.file()->give_back({tensor.data, static_cast<std::size_t>(tensor.bytes())});
  }

 private:
  std::string path_, name_, overrides_, config_, weight_type_;
  std::vector<SafetensorsFile> files_;  // keep the mappings alive
  std::map<std::string, TensorView, std::less<>> tensors_;
};

}  // namespace

std::string_view quantization_of(const std::vector<SafetensorsTensor>& tensors) {
  constexpr std::pair<std::string_view, std::string_view> kEnds[] = {
      {".quant_state.bitsandbytes__nf4", "bitsandbytes (NF4)"},
      {".quant_state.bitsandbytes__fp4", "bitsandbytes (FP4)"},
      {".SCB", "bitsandbytes (INT8)"},
      {".qweight", "GPTQ or AWQ"},
      {".weight_packed", "compressed-tensors"},
      {".weight_scale_inv", "fp8"}};
  for (const SafetensorsTensor& tensor : tensors)
    for (const auto& [end, method] : kEnds)
      if (tensor.name.ends_with(end)) return method;
  return {};
}

namespace {

struct Weights {
  std::vector<SafetensorsFile> files;
  std::map<std::string, TensorView, std::less<>> tensors;
  std::map<std::string, std::int64_t> bytes_by_type;
};

Status add_file(const std::string& path, Weights& weights) {
  Result<SafetensorsFile> file = SafetensorsFile::open(path);
  if (!file) return file.error();
  if (const std::string_view method = quantization_of(file->tensor_list()); !method.empty())
    return unsupported_quantization(method).annotate(printable(path));
  if (const Status status = file->check_supported(); !status.ok()) return status.annotate(printable(path));
  weights.files.push_back(std::move(*file));
  return ok_status();
}

void take_tensor(const std::string& name, const TensorView& tensor, Weights& weights) {
  const DType type = tensor.dtype == DType::u8 ? DType::mxfp4 : tensor.dtype;
  weights.bytes_by_type[std::string(dtype_info(type).name)] += tensor.bytes();
  weights.tensors.emplace(name, tensor);
}

// The bytes of MXFP4 weights are taken, too. Other bytes are masks of old files.
void take_if_mxfp4(const SafetensorsTensor& tensor, Weights& weights) {
  if (tensor.type == "U8" && (tensor.name.ends_with("_blocks") || tensor.name.ends_with("_scales")))
    take_tensor(tensor.name, {DType::u8, tensor.shape, tensor.data}, weights);
}

Status open_shards(const ModelFiles& files, Weights& weights) {
  const Result<std::string> text = read_text_file(files.index, kMaxIndexBytes);
  if (!text) return text.error();
  const Result<std::map<std::string, std::string>> index = parse_safetensors_index(*text);
  if (!index) return index.error().annotate(printable(files.index));
  std::map<std::string_view, std::size_t> opened;  // shard -> its place in weights.files
  for (const auto& [name, shard] : *index) {
    const auto [entry, is_new] = opened.emplace(shard, weights.files.size());
    if (is_new) PAGODA_RETURN_IF_ERROR(add_file(in_folder(files.path, shard), weights));
    const SafetensorsFile& file = weights.files[entry->second];
    const auto tensor = file.tensors().find(name);
    if (tensor != file.tensors().end()) {
      take_tensor(name, tensor->second, weights);
      continue;
    }
    // A mask or position buffer is listed, but not of a type that is run.
    const auto listed = std::ranges::find(file.tensor_list(), name, &SafetensorsTensor::name);
    if (listed != file.tensor_list().end()) {
      take_if_mxfp4(*listed, weights);
    } else {
      return corrupt_data(concat("tensor '", printable(name), "' is not in ", printable(shard),
                                 ", where the index says it is"));
    }
  }
  return ok_status();
}

}  // namespace

Result<std::map<std::string, std::string>> parse_safetensors_index(std::string_view text) {
  namespace json = boost::json;
  boost::system::error_code error;
  const json::value document = json::parse(json::string_view(text.data(), text.size()), error);
  if (error) return corrupt_data(concat("not well-formed JSON: ", error.message()));
  const json::object* object = document.if_object();
  const json::value* map = object == nullptr ? nullptr : object->if_contains("weight_map");
  if (map == nullptr || !map->is_object()) return corrupt_data("has no 'weight_map' object");
  std::map<std::string, std::string> index;
  for (const auto& [name, shard] : map->get_object()) {
    if (!shard.is_string() || !plain_file_name(std::string_view(shard.get_string()))) {
      return corrupt_data(concat("weight_map['", printable(name), "'] is not a plain file name"));
    }
    index.emplace(name, shard.get_string());
  }
  if (index.empty()) return corrupt_data("'weight_map' is empty");
  return index;
}

Result<std::unique_ptr<ModelSource>> open_hugging_face(const ModelFiles& files, std::string_view overrides,
                                                       std::string_view rope) {
  const std::string config_path = in_folder(files.path, "config.json");
  const Result<std::string> config_text = read_text_file(config_path, kMaxConfigBytes);
  if (!config_text) return config_text.error();
  const Result<std::string> overridden = with_overrides(*config_text, overrides);
  if (!overridden) return overridden.error().annotate("--hf-overrides");
  const Result<std::string> turned = with_rope(*overridden, rope_theta_of(overrides));
  if (!turned) return turned.error();
  Result<std::string> config = with_rope(*turned, rope);
  if (!config) return config.error();

  Weights weights;
  if (!files.index.empty()) {
    PAGODA_RETURN_IF_ERROR(open_shards(files, weights));
  } else {
    for (const std::string& path : files.weights) PAGODA_RETURN_IF_ERROR(add_file(path, weights));
    for (const SafetensorsFile& file : weights.files) {
      for (const auto& [name, tensor] : file.tensors()) {
        if (weights.tensors.contains(name))
          return corrupt_data(concat("tensor '", printable(name), "' is in two files of '",
                                     printable(files.path), "', which has no index"));
        take_tensor(name, tensor, weights);
      }
      for (const SafetensorsTensor& each : file.tensor_list()) take_if_mxfp4(each, weights);
    }
  }
  return std::unique_ptr<ModelSource>(std::make_unique<HuggingFaceSource>(
      files.path, files.name, concat(overrides, rope), *std::move(config),
      describe_types(weights.bytes_by_type), std::move(weights.files), std::move(weights.tensors)));
}

}  // namespace pagoda
