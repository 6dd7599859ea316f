#include "loader/model_files.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "loader/gguf.h"
#include "loader/hub_cache.h"
#include "loader/json_object.h"
#include "loader/mapped_file.h"
#include "loader/mistral_folder.h"
#include "loader/printable.h"
#include "loader/quantization.h"

namespace pagoda {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr std::string_view kMistralWeights = "consolidated";
constexpr const char* kMistralIndex = "consolidated.safetensors.index.json";
constexpr std::size_t kMaxFolderEntries = 10'000;

// `word` must be lower case.
bool is_gguf_named(std::string_view name, std::string_view word) {
  const auto same = [](char a, char b) { return (a | 0x20) == b; };
  return name.ends_with(".gguf") && !std::ranges::search(name, word, same).empty();
}

// Formats that run code when read (pickle), or are specific to other engines.
bool foreign_weights(std::string_view extension) {
  constexpr auto kForeign = std::to_array<std::string_view>(
      {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".h5", ".msgpack", ".onnx"});
  return std::ranges::find(kForeign, extension) != kForeign.end();
}

Status refuse_foreign(const std::string& path) {
  return unimplemented(
      concat("'", printable(path),
             "' is not a supported weight format; supported: .safetensors and .gguf (convert "
             "pickled weights with transformers' save_pretrained)"));
}

// True for importance matrices ("MODEL-imatrix.gguf") and adapters, which are stored beside models.
bool is_beside_models(const std::string& path) {
  const Result<GgufFile> file = GgufFile::open(path);
  return file && (file->is_importance_matrix() || file->is_adapter());
}

// "NAME-00002-of-00003.gguf".
struct PartName {
  std::string_view stem;
  std::int64_t number = 0, count = 0;
};

std::optional<PartName> read_part_name(std::string_view name) {
  constexpr std::string_view kOf = "-of-", kEnd = ".gguf";
  const std::size_t of = name.rfind(kOf);
  const std::size_t dash = of == name.npos || of == 0 ? name.npos : name.rfind('-', of - 1);
  if (dash == name.npos || !name.ends_with(kEnd)) return std::nullopt;
  const auto number = [](std::string_view text, std::int64_t& value) {
    const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && at == text.data() + text.size() && value > 0;
  };
  PartName out{name.substr(0, dash)};
  const std::string_view count = name.substr(of + kOf.size(), name.size() - kEnd.size() - of - kOf.size());
  if (!number(name.substr(dash + 1, of - dash - 1), out.number) || !number(count, out.count))
    return std::nullopt;
  return out;
}

// Keeps the first existing part of each model; `names` must be sorted.
void keep_first_parts(std::vector<std::string>& names) {
  std::vector<std::string> firsts;
  for (std::string& name : names) {
    const std::string_view before = firsts.empty() ? std::string_view() : firsts.back();
    const auto part = read_part_name(name), last = read_part_name(before);
    if (!part || !last || part->stem != last->stem || part->count != last->count)
      firsts.push_back(std::move(name));
  }
  names = std::move(firsts);
}

bool exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

std::string join(const std::vector<std::string>& list) {
  std::string out;
  for (const std::string& each : list) out += (out.empty() ? "" : ", ") + printable(each);
  return out;
}

std::string base_name(const std::string& path) {
  fs::path clean = fs::path(path).lexically_normal();
  if (!clean.has_filename()) clean = clean.parent_path();
  std::error_code error;
  if (clean == "." || clean == "..") clean = fs::absolute(clean, error).lexically_normal();
  if (!clean.has_filename()) clean = clean.parent_path();
  return clean.filename().string();
}

// The error for a PEFT folder.
Status refuse_adapter(const std::string& config_path) {
  std::string of;
  if (const Result<std::string> text = read_text_file(config_path, std::size_t{1} << 20)) {
    if (const Result<boost::json::object> config = parse_json_object(*text, "adapter_config.json")) {
      const boost::json::value* base = config->if_contains("base_model_name_or_path");
      if (base != nullptr && base->is_string())
        of = concat(" of ", printable(std::string_view(base->get_string())));
    }
  }
  return invalid_argument(concat("'", printable(fs::path(config_path).parent_path().string()),
                                 "' is an adapter (PEFT)", of,
                                 ", not a model: name its model, and the adapter with --lora"));
}

// Checks shards without an index, which must be numbered: "model-00001-of-00002.safetensors".
Status check_all_shards(const std::string& folder, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const std::size_t at = name.find("-of-");
    std::int64_t count = 0;
    if (at == name.npos) continue;
    std::from_chars(name.data() + at + 4, name.data() + name.size(), count);
    if (count != static_cast<std::int64_t>(names.size()))
      return invalid_argument(concat("folder '", printable(folder), "' has no ", kIndexName, " and ",
                                     names.size(), " .safetensors files of ", count, ": ", join(names)));
  }
  return ok_status();
}

// Returns the weights beside a params.json; `names` are the complete ones.
Result<ModelFiles> mistral_files_of(const std::string& folder, const std::vector<std::string>& names) {
  ModelFiles files;
  files.path = folder;
  files.name = base_name(folder);
  files.mistral = true;
  if (std::string index = in_folder(folder, kMistralIndex); exists(index)) {
    files.index = std::move(index);
    return files;
  }
  PAGODA_RETURN_IF_ERROR(check_all_shards(folder, names));
  for (const std::string& name : names) files.weights.push_back(in_folder(folder, name));
  return files;
}

Result<ModelFiles> from_file(const std::string& path) {  // NOLINT(misc-no-recursion): once, by the first part
  const std::string extension = fs::path(path).extension().string();
  ModelFiles files;
  if (extension == ".gguf" || has_gguf_magic(path)) {
    files.format = ModelFormat::gguf;
    files.path = path;
    // Any part of a model stands for the whole, as a shard stands for its folder.
    if (const auto part = read_part_name(path); part && part->number > 1)
      if (const std::string first = gguf_part_path(part->stem, 1, part->count); exists(first))
        return from_file(first);
    files.name = extension == ".gguf" ? fs::path(path).stem().string() : fs::path(path).filename().string();
    return files;
  }
  if (extension == ".safetensors") {
    const std::string folder = fs::path(path).has_parent_path() ? fs::path(path).parent_path().string() : ".";
    const auto beside = [&](const char* name) { return (fs::path(folder) / name).string(); };
    if (exists(beside("adapter_config.json")) && !exists(beside("config.json")))
      return refuse_adapter(beside("adapter_config.json"));
    if (fs::path(path).filename().string().starts_with(kMistralWeights) &&
        exists(beside(kMistralConfig.data())))
      return mistral_files_of(folder, {fs::path(path).filename().string()});
    Result<ModelFiles> whole = model_files_in_folder(folder);
    // A shard stands for its folder; any other file is the only weights file, used with the folder's
    // config.json.
    if (whole && !whole->index.empty() &&
        fs::path(path).filename().string().find("-of-") != std::string::npos) {
      return whole;
    }
    files.path = folder;
    files.name = base_name(folder);
    files.weights = {path};
    return files;
  }
  if (foreign_weights(extension)) return refuse_foreign(path);
  return invalid_argument(
      concat("'", printable(path), "' is not a model; expected a folder, a .gguf or a .safetensors file"));
}

// File names in a folder that may be weights.
struct FolderEntries {
  std::string shown;                           // for messages
  std::vector<std::string> gguf, safetensors;  // sorted
  std::vector<std::string> mistral;            // sorted; weights of a params.json
  std::vector<std::string> projectors, foreign;
};

Result<FolderEntries> list_folder(const std::string& folder) {
  FolderEntries out;
  out.shown = concat("folder '", printable(folder), "'");
  std::error_code error;
  std::size_t count = 0;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (++count > kMaxFolderEntries) return invalid_argument(concat(out.shown, " has too many entries"));
    const std::string extension = entry->path().extension().string();
    std::string name = entry->path().filename().string();
    if (extension == ".gguf")
      (is_projector_name(name) ? out.projectors : out.gguf).push_back(std::move(name));
    else if (extension == ".safetensors")
      out.safetensors.push_back(std::move(name));
    else if (foreign_weights(extension))
      out.foreign.push_back(std::move(name));
  }
  if (error) return invalid_argument(concat("cannot read ", out.shown, ": ", error.message()));
  std::ranges::sort(out.gguf);
  std::ranges::sort(out.safetensors);
  if (!exists(in_folder(folder, kMistralConfig))) return out;
  std::erase_if(out.safetensors, [&](std::string& name) {
    const bool own = name.starts_with(kMistralWeights);
    if (own) out.mistral.push_back(std::move(name));
    return own;
  });
  return out;
}

// Returns the weights beside a config.json: model.safetensors, an index, or all .safetensors files, as in
// vLLM. If there are none, neither `index` nor `weights` is set.
Result<ModelFiles> safetensors_of(const std::string& folder, std::vector<std::string> names) {
  const auto full = [&](const std::string& name) { return (fs::path(folder) / name).string(); };
  ModelFiles files;
  files.path = folder;
  files.name = base_name(folder);
  if (exists(full("model.safetensors"))) {
    files.weights = {full("model.safetensors")};
  } else if (exists(full(kIndexName))) {
    files.index = full(kIndexName);
  } else {
    // Skips Mistral's own form and adapters.
    if (names.size() > 1)
      std::erase_if(names, [](const std::string& name) {
        return name.starts_with(kMistralWeights) || name.starts_with("adapter");
      });
    PAGODA_RETURN_IF_ERROR(check_all_shards(folder, names));
    for (const std::string& name : names) files.weights.push_back(full(name));
  }
  return files;
}

}  // namespace

std::string gguf_part_path(std::string_view stem, std::int64_t part, std::int64_t count) {
  const auto digits = [](std::int64_t number) {
    const std::string text = std::to_string(number);
    return std::string(text.size() < 5 ? 5 - text.size() : 0, '0') + text;
  };
  return concat(stem, "-", digits(part), "-of-", digits(count), ".gguf");
}

std::vector<std::string> gguf_part_paths(const std::string& first, std::int64_t count) {
  constexpr std::int64_t kMaxParts = 10'000;
  const std::string ending = gguf_part_path("", 1, count);
  std::vector<std::string> paths;
  if (count < 1 || count > kMaxParts || !first.ends_with(ending)) return paths;
  const std::string stem = first.substr(0, first.size() - ending.size());
  for (std::int64_t part = 1; part <= count; ++part) paths.push_back(gguf_part_path(stem, part, count));
  return paths;
}

bool has_gguf_magic(const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  char magic[4] = {};
  std::ifstream file(path, std::ios::binary);
  return file.read(magic, sizeof magic) && std::string_view(magic, sizeof magic) == "GGUF";
}

bool is_projector_name(std::string_view name) { return is_gguf_named(name, "mmproj"); }

bool plain_file_name(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." && name.find('/') == name.npos &&
         name.find('\\') == name.npos && name.find('\0') == name.npos;
}

std::string in_folder(const std::string& folder, std::string_view name) {
  return (std::filesystem::path(folder) / name).string();
}

Result<ModelFiles> model_files_in_folder(const std::string& folder) {
  PAGODA_ASSIGN_OR_RETURN(FolderEntries entries, list_folder(folder));
  const std::string& shown = entries.shown;
  const auto full = [&](const std::string& name) { return (fs::path(folder) / name).string(); };
  const bool configured = exists(full("config.json"));
  if (configured) {
    PAGODA_ASSIGN_OR_RETURN(ModelFiles files, safetensors_of(folder, entries.safetensors));
    if (!files.index.empty() || !files.weights.empty()) {
      if (!entries.mistral.empty()) files.left_out = entries.mistral.front();
      return files;
    }
  }
  if (!entries.mistral.empty()) return mistral_files_of(folder, entries.mistral);
  std::vector<std::string>& gguf = entries.gguf;
  keep_first_parts(gguf);
  if (gguf.size() > 1)
    std::erase_if(gguf, [&](const std::string& name) { return is_beside_models(full(name)); });
  if (gguf.size() == 1) return from_file(full(gguf.front()));
  if (!gguf.empty())
    return invalid_argument(concat(shown, " has several .gguf files; name one of: ", join(gguf)));
  if (!entries.projectors.empty())
    return not_found(concat(shown, " holds only the vision part of a model: ", join(entries.projectors)));
  if (exists(full("adapter_config.json"))) return refuse_adapter(full("adapter_config.json"));
  if (!configured && !entries.safetensors.empty()) return not_found(concat(shown, " has no config.json"));
  if (!entries.foreign.empty()) {
    // An unsupported method is also unsupported in other files.
    const std::string config = optional_text_file(full("config.json")).value_or("{}");
    const auto how = read_quantization_files(config, {});
    if (!how && how.error().code() == StatusCode::unimplemented) return how.error().annotate(shown);
    return refuse_foreign(full(std::ranges::min(entries.foreign)));
  }
  if (configured)
    return not_found(concat(shown,
                            " has config.json but no weights (model.safetensors or its index): the "
                            "download is incomplete"));
  return not_found(
      concat(shown, " holds no model; expected config.json with model.safetensors, or one .gguf file"));
}

Result<ModelFiles> find_model_files(const std::string& model, const HubPaths& hub) {
  if (model.empty()) return invalid_argument("no MODEL given: name a folder, a .gguf file or ORG/NAME");
  std::error_code error;
  if (fs::is_directory(model, error)) return model_files_in_folder(model);
  if (exists(model)) return from_file(model);

  std::vector<std::string> tried = {model};
  if (const std::optional<HubName> name = parse_hub_name(model)) {
    if (const std::optional<std::string> folder = find_in_hub_cache(*name, hub, tried)) {
      Result<ModelFiles> files = model_files_in_folder(*folder);
      if (files) files->name = name->repository;
      return files;
    }
  } else if (foreign_weights(fs::path(model).extension().string())) {
    return refuse_foreign(model);
  }
  if (model.find("://") != std::string::npos)
    return not_found(concat("'", printable(model),
                            "' cannot be read: give a folder, a .gguf file, or a model ",
                            "of the hub as ORG/NAME, hf://ORG/NAME or https://huggingface.co/ORG/NAME"));
  if (model.starts_with("~"))
    return not_found(concat("there is no model '", printable(model), "': no shell has replaced the '~'"));
  return not_found(
      concat("there is no model '", printable(model),
             "': no such file or folder, and it is not in the Hugging Face cache; tried: ", join(tried)));
}

}  // namespace pagoda
