// Determines what a path is, and collects what describe_output.cc prints.
#include "models/describe.h"

#include <boost/json.hpp>
#include <filesystem>
#include <limits>
#include <set>
#include <utility>

#include "base/assign_or_return.h"
#include "base/strict_json.h"
#include "base/strings.h"
#include "kernels/linear.h"
#include "loader/hf_source.h"
#include "loader/mistral_folder.h"
#include "loader/model_files.h"
#include "loader/printable.h"
#include "loader/safetensors.h"
#include "loader/weight_types.h"
#include "models/read_config.h"

namespace pagoda {
namespace {

namespace json = boost::json;
namespace fs = std::filesystem;

Description description_of_model(const std::string& path, std::string format) {
  return {.path = path, .format = std::move(format), .is_model = true, .supported = true};
}

void unsupported(Description& out, const Status& why) {
  out.supported = false;
  if (out.reason.empty()) out.reason = why.message();
}

// An unsupported model is still described; a damaged one is an error, unless the file is only a vocabulary.
Status add_model(Result<ModelInfo> model, const std::string& path, bool vocabulary, Description& out) {
  if (model)
    out.model = *std::move(model);
  else if (model.error().code() == StatusCode::corrupt_data && !vocabulary)
    return model.error().annotate(printable(path));
  else
    unsupported(out, model.error());
  return ok_status();
}

Result<Description> describe_gguf(const std::string& path) {
  PAGODA_ASSIGN_OR_RETURN(GgufFile file, GgufFile::open(path));
  Description out = description_of_model(path, "gguf");
  out.version = file.version();
  if (const std::string* architecture = file.string("general.architecture")) out.architecture = *architecture;
  PAGODA_RETURN_IF_ERROR(add_model(read_gguf_config(file), path, file.tensor_list().empty(), out));
  if (const Status status = file.check_supported(); !status.ok()) unsupported(out, status);
  if (file.tensor_list().empty()) {
    out.supported = false;
    out.reason = "the file holds a vocabulary and no tensors";
  }
  for (const auto& [key, value] : file.metadata()) out.metadata.emplace_back(key, value);
  for (const FileTensor& tensor : file.tensor_list()) {
    out.tensors.push_back({tensor.name, std::string(tensor.type), tensor.shape, tensor.bytes});
  }
  out.files.push_back(file.file());
  return out;
}

// Adds all tensors to `stored`, which points into the file.
Status add_safetensors(const std::string& path, Description& out, StoredTensors& stored) {
  PAGODA_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::open(path));
  out.files.push_back(file.file());
  for (const FileTensor& tensor : file.tensor_list()) {
    stored.emplace(tensor.name, tensor);
    out.tensors.push_back({tensor.name, std::string(tensor.type), tensor.shape, tensor.bytes});
  }
  for (const auto& [key, value] : file.metadata()) {
    bool known = false;  // shards repeat {"format": "pt"}
    for (const auto& [have, ignored] : out.metadata) known = known || have == key;
    if (!known) out.metadata.emplace_back(key, value);
  }
  return ok_status();
}

// `text`: the content of config.json at `path`.
Status add_config(std::string_view text, const std::string& path, Description& out) {
  Result<std::string> architecture = architecture_of_config_json(text);
  if (!architecture) return architecture.error().annotate(printable(path));
  out.architecture = std::move(*architecture);
  const fs::path beside = fs::path(path).parent_path() / "generation_config.json";
  const auto generation = optional_text_file(beside.string(), kMaxConfigBytes);
  return add_model(read_config_json(text, generation), path, false, out);
}

void add_weights(const Result<ReadableTensors>& readable, Description& out) {
  if (!readable) return unsupported(out, readable.error());
  const auto& quantised_tensors = readable->quantized->tensors();
  if (!quantised_tensors.empty()) out.quantised_types = describe_types(readable->bytes_by_type);
  for (const auto& [name, tensor] : readable->tensors) {
    const bool quantised = quantised_tensors.contains(name);
    out.weights.push_back(
        {name, std::string(dtype_info(tensor.dtype).name), tensor.shape,
         quantised ? estimated_packed_bytes(tensor.dtype, tensor.elements()) : tensor.bytes()});
  }
}

Result<Description> describe_folder(const ModelFiles& files) {
  const auto inside = [&](std::string_view name) { return (fs::path(files.path) / name).string(); };
  Description out = description_of_model(files.path, "hugging_face");
  PAGODA_ASSIGN_OR_RETURN(const std::string config, folder_config(files));
  PAGODA_RETURN_IF_ERROR(add_config(config, inside(files.mistral ? kMistralConfig : "config.json"), out));
  std::set<std::string> shards(files.weights.begin(), files.weights.end());
  if (!files.index.empty()) {
    PAGODA_ASSIGN_OR_RETURN(const auto index, read_safetensors_index(files.index));
    for (const auto& [tensor, shard] : index) shards.insert(inside(shard));
  }
  StoredTensors stored;
  for (const std::string& path : shards) PAGODA_RETURN_IF_ERROR(add_safetensors(path, out, stored));
  const auto said = read_quantization_files(
      config, [&](std::string_view name) { return optional_text_file(inside(name), kMaxConfigBytes); });
  if (said)
    add_weights(readable_tensors(files, config, *said, stored), out);
  else
    unsupported(out, said.error());
  if (shards.empty()) unsupported(out, not_found("the folder holds no weights"));
  if (out.model) {
    out.model->name = files.name;
    out.model->weight_type = out.stored_types();
  }
  return out;
}

// Adds kind and sizes of tokenizer.json. Whether its components are supported is up to text/.
Status add_tokenizer(const json::object& object, const std::string& path, Description& out) {
  const auto count = [](const json::value* value) -> std::int64_t {
    if (value == nullptr) return 0;
    if (value->is_object()) return static_cast<std::int64_t>(value->get_object().size());
    return value->is_array() ? static_cast<std::int64_t>(value->get_array().size()) : -1;
  };
  const json::object& model = object.at("model").get_object();
  const json::value* vocabulary = model.if_contains("vocab");
  if (vocabulary == nullptr || count(vocabulary) < 0) {
    return corrupt_data(concat(printable(path), ": 'model.vocab' is not an object or a list"));
  }
  const json::value* added = object.if_contains("added_tokens");
  if (added != nullptr && !added->is_array() && !added->is_null()) {
    return corrupt_data(concat(printable(path), ": 'added_tokens' is not a list"));
  }
  const json::value* type = model.if_contains("type");
  if (type != nullptr && type->is_string()) {
    out.metadata.emplace_back("model.type", std::string(type->get_string()));
  }
  out.metadata.emplace_back("model.vocab", count(vocabulary));
  out.metadata.emplace_back("model.merges", std::max<std::int64_t>(0, count(model.if_contains("merges"))));
  out.metadata.emplace_back("added_tokens", std::max<std::int64_t>(0, count(added)));
  for (const std::string_view part : {"normalizer", "pre_tokenizer", "post_processor", "decoder"}) {
    const json::value* value = object.if_contains(part);
    const json::object* component = value == nullptr ? nullptr : value->if_object();
    const json::value* kind = component == nullptr ? nullptr : component->if_contains("type");
    if (kind != nullptr && kind->is_string()) {
      out.metadata.emplace_back(std::string(part), std::string(kind->get_string()));
    }
  }
  return ok_status();
}

Result<Description> describe_json_file(const std::string& path) {
  PAGODA_ASSIGN_OR_RETURN(const std::string text, read_text_file(path));
  boost::system::error_code error;
  json::monotonic_resource memory;  // a single release at the end, not one per value
  json::value document = json::parse(text, error, &memory);
  if (error) document = json::parse(strict_json(text), error, &memory);
  if (error) return corrupt_data(concat(printable(path), " is not well-formed JSON: ", error.message()));
  Description out{.path = path, .format = "json"};
  const json::object* object = document.if_object();
  if (object == nullptr) {
    if (fs::path(path).filename() == "tokenizer.json" || fs::path(path).filename() == "config.json") {
      return corrupt_data(concat(printable(path), " is not a JSON object"));
    }
    return out;
  }
  const json::value* model = object->if_contains("model");
  if (model != nullptr && model->is_object()) {
    out.format = "tokenizer.json";
    PAGODA_RETURN_IF_ERROR(add_tokenizer(*object, path, out));
  } else if (fs::path(path).filename() == "tokenizer.json") {
    return corrupt_data(concat(printable(path), " has no 'model' object"));
  } else if (object->contains("weight_map")) {
    const Result<std::map<std::string, std::string>> index = parse_safetensors_index(text);
    if (!index) return index.error().annotate(printable(path));
    out.format = "safetensors.index.json";
    out.metadata.emplace_back("tensors", static_cast<std::int64_t>(index->size()));
  } else if (object->contains("architectures") || object->contains("model_type")) {
    out.format = "config.json";
    out.is_model = out.supported = true;
    PAGODA_RETURN_IF_ERROR(add_config(text, path, out));
  } else {
    out.metadata.emplace_back("entries", static_cast<std::int64_t>(object->size()));
  }
  return out;
}

// Saturates at the largest value.
void add_up(std::int64_t more, std::int64_t& sum) {
  if (__builtin_add_overflow(sum, more, &sum)) sum = std::numeric_limits<std::int64_t>::max();
}

Result<Description> describe_safetensors_file(const std::string& path) {
  Description out{.path = path, .format = "safetensors"};
  StoredTensors stored;
  PAGODA_RETURN_IF_ERROR(add_safetensors(path, out, stored));
  add_weights(readable_tensors({}, stored), out);
  return out;
}

}  // namespace

Result<Description> describe(const std::string& path, const HubPaths& hub) {
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_directory(path, error)) {
    const std::string extension = fs::path(path).extension().string();
    if (extension == ".gguf" || has_gguf_magic(path)) return describe_gguf(path);
    if (extension == ".safetensors") return describe_safetensors_file(path);
    if (extension == ".json") return describe_json_file(path);
  }
  Result<ModelFiles> files = find_model_files(path, hub);
  if (!files) {
    // A folder with a configuration but no weights can still be described.
    const bool configured = fs::is_regular_file(fs::path(path) / "config.json", error);
    if (files.error().code() != StatusCode::not_found || !configured) return files.error();
    ModelFiles bare;
    bare.path = path;
    bare.name = fs::path(path).filename().string();
    files = std::move(bare);
  }
  return files->format == ModelFormat::gguf ? describe_gguf(files->path) : describe_folder(*files);
}

std::int64_t Description::parameters() const {
  std::int64_t sum = 0;
  for (const DescribedTensor& tensor : read_tensors()) {
    // Extents were checked on reading; with types of a few bits, elements may outnumber bytes.
    std::int64_t product = 1;
    for (const std::int64_t extent : tensor.shape) product *= extent;
    add_up(product, sum);
  }
  return sum;
}

std::string Description::stored_types() const {
  return quantised_types.empty() ? describe_types(bytes_by_type()) : quantised_types;
}

std::int64_t Description::weight_bytes() const {
  std::int64_t sum = 0;
  for (const DescribedTensor& tensor : tensors) add_up(tensor.bytes, sum);
  return sum;
}

std::map<std::string, std::int64_t> Description::bytes_by_type() const {
  std::map<std::string, std::int64_t> out;
  for (const DescribedTensor& tensor : tensors) add_up(tensor.bytes, out[tensor.type]);
  return out;
}

}  // namespace pagoda
