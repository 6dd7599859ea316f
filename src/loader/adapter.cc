#include "loader/adapter.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cmath>
#include <filesystem>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "base/xxh64.h"
#include "loader/gguf.h"
#include "loader/hub_cache.h"
#include "loader/json_object.h"
#include "loader/mapped_file.h"
#include "loader/model_files.h"
#include "loader/printable.h"
#include "loader/safetensors.h"
#include "tensor/shape_text.h"

namespace pagoda {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr std::size_t kMaxAdapterConfig = std::size_t{16} << 20;
constexpr const char* kPeftConfig = "adapter_config.json";

bool is_set(const json::object& config, std::string_view key) {
  const json::value* const value = config.if_contains(key);
  if (value == nullptr || value->is_null()) return false;
  if (value->is_bool()) return value->get_bool();
  if (value->is_array()) return !value->get_array().empty();
  if (value->is_object()) return !value->get_object().empty();
  return !value->is_string() || !value->get_string().empty();
}

std::string text_of(const json::object& config, std::string_view key) {
  const json::value* const value = config.if_contains(key);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
}

// The scales of an adapter's parts, as far as PEFT's LoraConfig specifies them.
struct PeftScales {
  double alpha = 8;
  std::vector<std::pair<std::string, double>> patterns = {};  // the first match of a module's name applies
  bool by_root = false;                                       // rsLoRA

  float of(std::string_view module, std::int64_t rank) const;
};

// A pattern is a regular expression for the end of a module's name, after a dot. Only patterns that are plain
// names are accepted: dots, an optional leading caret, and backslashes before dots.
Result<std::string> name_pattern(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size() && text[i + 1] == '.') continue;
    if (text.substr(i).find_first_of("*+?()[]{}|$\\") == 0 || (text[i] == '^' && i > 0))
      return unimplemented(concat("'alpha_pattern' with the regular expression '", printable(text),
                                  "'; only names of modules are supported"));
    out += text[i];
  }
  return out;
}

float PeftScales::of(std::string_view module, std::int64_t rank) const {
  double own = alpha;
  for (const auto& [pattern, value] : patterns) {
    std::string_view name = pattern;
    const bool whole = name.starts_with('^');
    if (whole) name.remove_prefix(1);
    if (module != name && (whole || !module.ends_with(concat(".", name)))) continue;
    own = value;
    break;
  }
  const auto r = static_cast<double>(rank);
  return static_cast<float>(own / (by_root ? std::sqrt(r) : r));
}

Result<PeftScales> read_scales(const json::object& config) {
  PeftScales out;
  const auto number = [&](const json::value& value, std::string_view key) -> Result<double> {
    if (!value.is_number() || !std::isfinite(value.to_number<double>()))
      return corrupt_data(concat("'", key, "' must be a number"));
    return value.to_number<double>();
  };
  if (const json::value* const alpha = config.if_contains("lora_alpha")) {
    PAGODA_ASSIGN_OR_RETURN(out.alpha, number(*alpha, "lora_alpha"));
  }
  if (is_set(config, "alpha_pattern")) {
    const json::value& patterns = config.at("alpha_pattern");
    if (!patterns.is_object()) return corrupt_data("'alpha_pattern' must be an object");
    for (const auto& [key, value] : patterns.get_object()) {
      PAGODA_ASSIGN_OR_RETURN(std::string name, name_pattern(key));
      PAGODA_ASSIGN_OR_RETURN(const double alpha, number(value, "alpha_pattern"));
      out.patterns.emplace_back(std::move(name), alpha);
    }
  }
  out.by_root = is_set(config, "use_rslora");
  return out;
}

// Refuses, by name, adapters that do more than add a sum to matrices.
Status check_is_plain(const json::object& config) {
  const std::string type = text_of(config, "peft_type");
  if (type.empty() && !config.contains("peft_type"))
    return unimplemented("adapter_config.json is not PEFT's: it has no 'peft_type'");
  if (type != "LORA")
    return unimplemented(concat("adapters of type ", printable(type), " are not supported, only LORA"));
  constexpr auto kOther = std::to_array<std::string_view>(
      {"alora_invocation_tokens", "arrow_config", "kasa_config", "layer_replication", "megatron_config",
       "monteclora_config", "target_parameters", "trainable_token_indices", "use_bdlora", "use_qalora",
       "velora_config"});
  for (const std::string_view key : kOther)
    if (is_set(config, key)) return unimplemented(concat("'", key, "' of an adapter is not supported"));
  // These initialisations first subtract a part from the model's own weights. An adapter saved with
  // `path_initial_model_for_weight_conversion` includes that part, and says true here.
  const std::string start = text_of(config, "init_lora_weights");
  constexpr auto kOfBase = std::to_array<std::string_view>({"pissa", "olora", "corda", "loftq", "lora_ga"});
  for (const std::string_view each : kOfBase)
    if (start.starts_with(each))
      return unimplemented(concat("'init_lora_weights' ", printable(start),
                                  " changes the model's own weights: convert the adapter to plain LoRA "
                                  "(save_pretrained with path_initial_model_for_weight_conversion)"));
  return ok_status();
}

enum class Part { whole, base, a, b, bias_of_b, embedding_a, embedding_b, lengths, none };

struct TensorPart {
  std::string module;  // the model's name for it
  std::string end;     // ".weight", ".bias"
  Part part = Part::whole;
};

// E.g. "base_model.model.X.lora_A.default.weight"; the adapter's name ("default") is optional.
Result<TensorPart> part_of(std::string_view name) {
  const std::string_view own = name;
  constexpr std::string_view kPrefix = "base_model.model.";
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  constexpr std::array<std::pair<std::string_view, Part>, 8> kMarks = {
      {{"lora_A", Part::a},
       {"lora_B", Part::b},
       {"lora_embedding_A", Part::embedding_a},
       {"lora_embedding_B", Part::embedding_b},
       {"lora_magnitude_vector", Part::lengths},
       {"modules_to_save", Part::whole},
       {"base_layer", Part::base},
       {"original_module", Part::none}}};
  const std::size_t last = name.rfind('.');
  if (last == name.npos) return unimplemented(concat("tensor '", printable(own), "' is not known"));
  const bool bias = name.ends_with(".bias");
  const std::string end = bias ? ".bias" : ".weight";
  for (const auto& [mark, part] : kMarks) {
    const std::size_t at = name.find(concat(".", mark));
    const std::size_t behind = at + 1 + mark.size();
    if (at == name.npos || (behind < name.size() && name[behind] != '.')) continue;
    TensorPart out{std::string(name.substr(0, at)), end, part};
    if (bias && part == Part::b) out.part = Part::bias_of_b;
    if (bias && part != Part::b && part != Part::whole && part != Part::base && part != Part::none) break;
    return out;
  }
  if (name.find(".lora_") != name.npos || name.find(".token_adapter.") != name.npos ||
      name.find(".base_layer.") != name.npos || (!name.ends_with(".weight") && !bias))
    return unimplemented(concat("tensor '", printable(own), "' of an adapter is not supported"));
  return TensorPart{std::string(name.substr(0, last)), end, Part::whole};
}

bool is_adapter_matrix(const FileTensor& tensor) { return tensor.shape.size() == 2 && tensor.elements() > 0; }

Result<TensorView> view_of(const FileTensor& tensor) {
  if (tensor.dtype != DType::f32 && tensor.dtype != DType::f16 && tensor.dtype != DType::bf16)
    return unimplemented(concat("tensor '", printable(tensor.name), "' has type ", tensor.type,
                                "; an adapter's must be F32, F16 or BF16"));
  return TensorView{*tensor.dtype, tensor.shape, tensor.data};
}

// Checks that both factors exist and fit together, and that nothing else is given for a tensor that needs
// them.
Status check_change(std::string_view name, const TensorChange& change) {
  const auto bad = [&](std::string_view what) {
    return corrupt_data(concat("the adapter's '", printable(name), "' ", what));
  };
  if (change.left.has_value() != change.right.has_value()) return bad("has one of two factors only");
  if (change.left && change.left->columns() != change.right->rows())
    return bad(concat("has factors that do not fit: ", change.left->columns(), " columns, ",
                      change.right->rows(), " rows"));
  if (change.row_lengths && !change.left) return bad("has lengths of rows and no factors");
  return ok_status();
}

bool is_embedding(std::string_view module) {
  return module.ends_with("embed_tokens") || module.ends_with(".wte") || module.ends_with("embed_in") ||
         module.ends_with("word_embeddings");
}

}  // namespace

std::string_view plain_tensor_name(std::string_view name) {
  constexpr auto kBefore =
      std::to_array<std::string_view>({"base_model.model.", "model.", "language_model.", "text_model.",
                                       "transformer.", "_orig_mod.", "module."});
  const auto starts = [&](std::string_view prefix) { return name.starts_with(prefix); };
  for (const std::string_view* at; (at = std::ranges::find_if(kBefore, starts)) != kBefore.end();)
    name.remove_prefix(at->size());
  return name;
}

std::string Adapter::identity() const {
  std::string text = concat("adapter ", xxh64(config_), " scale ", scale_);
  for (const TensorFile& file : files_) text += concat(" ", file.identity());
  return text;
}

bool Adapter::unchanged() const {
  return std::ranges::all_of(files_, [](const TensorFile& file) { return file.file()->unchanged(); });
}

Result<Adapter> Adapter::open_folder(const std::string& folder, float scale) {
  PAGODA_ASSIGN_OR_RETURN(std::string config,
                          read_text_file(in_folder(folder, kPeftConfig), kMaxAdapterConfig));
  std::error_code error;
  const std::string weights = in_folder(folder, "adapter_model.safetensors");
  if (!fs::exists(weights, error) && fs::exists(in_folder(folder, "adapter_model.bin"), error))
    return unimplemented("adapter_model.bin is a pickle; save the adapter as safetensors");
  PAGODA_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::open(weights));
  PAGODA_ASSIGN_OR_RETURN(Adapter out, parse(std::move(config), file, scale));
  out.path_ = folder;
  return out;
}

Result<Adapter> Adapter::parse(std::string text, const SafetensorsFile& file, float scale) {
  Adapter out;
  out.config_ = std::move(text);
  out.scale_ = scale;
  PAGODA_ASSIGN_OR_RETURN(const json::object config, parse_json_object(out.config_, kPeftConfig));
  PAGODA_RETURN_IF_ERROR(check_is_plain(config));
  PAGODA_ASSIGN_OR_RETURN(const PeftScales scales, read_scales(config));
  const bool transposed = is_set(config, "fan_in_fan_out");
  out.keeps_tied_head_ = is_set(config, "ensure_weight_tying");
  out.files_.push_back(file);
  for (const FileTensor& tensor : file.tensor_list()) {
    PAGODA_ASSIGN_OR_RETURN(const TensorPart part, part_of(tensor.name));
    if (part.part == Part::none) continue;
    PAGODA_ASSIGN_OR_RETURN(const TensorView view, view_of(tensor));
    const bool is_factor = part.part != Part::whole && part.part != Part::base &&
                           part.part != Part::bias_of_b && part.part != Part::lengths;
    if (is_factor && !is_adapter_matrix(tensor))
      return unimplemented(concat("tensor '", printable(tensor.name), "' of shape ", shape_text(tensor.shape),
                                  " is not supported: only matrices are adapted"));
    TensorChange& change = out.changes_[part.module + part.end];
    const auto scale_for = [&](std::int64_t rank) { return scale * scales.of(part.module, rank); };
    switch (part.part) {
      case Part::base:
        change.whole_is_models = true;
        [[fallthrough]];
      case Part::whole:
        change.whole = view;
        break;
      case Part::lengths:
        change.row_lengths = view;
        break;
      case Part::bias_of_b:
        change.sum = view;
        break;
      case Part::a:
        (transposed ? change.left : change.right) = AdapterMatrix{view, transposed};
        change.scale = scale_for(view.rows());
        break;
      case Part::b:
        (transposed ? change.right : change.left) = AdapterMatrix{view, transposed};
        break;
      case Part::embedding_a:
        change.left = AdapterMatrix{view, true};
        change.scale = scale_for(view.rows());
        break;
      case Part::embedding_b:
        change.right = AdapterMatrix{view, true};
        break;
      case Part::none:
        break;
    }
    if (part.part == Part::lengths && (transposed || is_embedding(part.module)))
      return unimplemented(concat("DoRA of ", transposed ? "transposed matrices" : "an embedding", " ('",
                                  printable(part.module), "') is not supported"));
  }
  const auto has_lengths = [](const auto& each) { return each.second.row_lengths.has_value(); };
  if (is_set(config, "use_dora") && std::ranges::none_of(out.changes_, has_lengths))
    return corrupt_data("'use_dora' is set, and no tensor has the lengths of rows (lora_magnitude_vector)");
  for (auto& [name, change] : out.changes_) {
    PAGODA_RETURN_IF_ERROR(check_change(name, change));
    if (!change.sum) continue;  // lora_bias has the scale of its product
    const auto product =
        out.changes_.find(concat(std::string_view(name).substr(0, name.size() - 5), ".weight"));
    if (product == out.changes_.end() || !product->second.left)
      return corrupt_data(concat("the adapter's '", printable(name), "' has no product beside it"));
    change.scale = product->second.scale;
  }
  return out;
}

Result<Adapter> Adapter::open_gguf(const std::string& path, float scale) {
  PAGODA_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::open(path));
  PAGODA_ASSIGN_OR_RETURN(Adapter out, parse(file, scale));
  out.path_ = path;
  return out;
}

Result<Adapter> Adapter::parse(const GgufFile& file, float scale) {
  Adapter out;
  out.scale_ = scale;
  out.format_ = ModelFormat::gguf;
  out.files_.push_back(file);
  const auto text = [&](std::string_view key) {
    const std::string* const value = file.string(key);
    return value != nullptr ? *value : std::string();
  };
  if (!file.is_adapter()) return invalid_argument("it is no adapter, but a model");
  if (const std::string type = text("adapter.type"); type != "lora")
    return unimplemented(concat("adapters of type '", printable(type), "' are not supported, only lora"));
  if (file.array("adapter.alora.invocation_tokens") != nullptr)
    return unimplemented("an adapter that begins at its own tokens (aLoRA) is not supported");
  out.architecture_ = text("general.architecture");
  const double alpha = file.number("adapter.lora.alpha").value_or(0);
  for (const FileTensor& tensor : file.tensor_list()) {
    const std::string_view name = tensor.name;
    const bool a = name.ends_with(".lora_a"), b = name.ends_with(".lora_b");
    if ((!a && !b) || !is_adapter_matrix(tensor))
      return unimplemented(concat("tensor '", printable(name), "' of shape ", shape_text(tensor.shape),
                                  " is not supported: only matrices are adapted"));
    PAGODA_ASSIGN_OR_RETURN(const TensorView view, view_of(tensor));
    const std::string_view of = name.substr(0, name.size() - std::string_view(".lora_a").size());
    TensorChange& change = out.changes_[std::string(of)];
    // The embedding's first factor has a row per token, since its rows are looked up.
    if (of == "token_embd.weight")
      (a ? change.left : change.right) = AdapterMatrix{view, b};
    else
      (a ? change.right : change.left) = AdapterMatrix{view, false};
  }
  for (auto& [name, change] : out.changes_) {
    PAGODA_RETURN_IF_ERROR(check_change(name, change));
    const auto rank = static_cast<double>(change.left->columns());
    change.scale = alpha == 0 ? scale : static_cast<float>(scale * alpha / rank);
  }
  return out;
}

Result<Adapter> Adapter::open(const std::string& path, float scale, const HubPaths& hub) {
  std::error_code error;
  std::string found = path;
  if (!fs::exists(path, error)) {
    std::vector<std::string> tried = {path};
    const std::optional<HubName> name = parse_hub_name(path);
    const std::optional<std::string> folder = name ? find_in_hub_cache(*name, hub, tried) : std::nullopt;
    if (!folder)
      return not_found(concat("there is no adapter '", printable(path),
                              "': no such file or folder, and it is not in the Hugging Face cache"));
    found = *folder;
  }
  if (!fs::is_directory(found, error) && !has_gguf_magic(found)) {
    const fs::path parent = fs::path(found).parent_path();
    found = parent.empty() ? "." : parent.string();
  }
  const bool is_folder = fs::is_directory(found, error);
  if (is_folder && !fs::exists(in_folder(found, kPeftConfig), error))
    return not_found(concat("'", printable(path), "' holds no adapter: no adapter_config.json"));
  Result<Adapter> out = is_folder ? open_folder(found, scale) : open_gguf(found, scale);
  if (!out) return out.error().annotate(concat("adapter '", printable(path), "'"));
  if (out->changes_.empty()) return corrupt_data(concat("adapter '", printable(path), "' has no tensors"));
  return out;
}

}  // namespace pagoda
