#include "loader/config_json.h"

#include <algorithm>

#include "base/strings.h"
#include "loader/config_families.h"
#include "loader/config_fields.h"
#include "loader/config_options.h"
#include "loader/json_object.h"
#include "loader/printable.h"

namespace pagoda {
namespace {

std::vector<std::string_view> supported_names() {
  std::vector<std::string_view> names;
  for (const ConfigFamily& family : config_families()) names.push_back(family.hf_name);
  for (const ConfigWrapper& wrapper : config_wrappers()) names.push_back(wrapper.class_name);
  return names;
}

// "Qwen3ForSequenceClassification" of "Qwen3Model": the same model with another head.
bool classifies(std::string_view name, std::string_view base_name) {
  constexpr std::string_view kBase = "Model", kHead = "ForSequenceClassification";
  return base_name.ends_with(kBase) && name.ends_with(kHead) &&
         name.substr(0, name.size() - kHead.size()) == base_name.substr(0, base_name.size() - kBase.size());
}

// The family of a wrapper's language model, which says its own model_type in `part`; null: it lies flat
// beside the rest. `wrapper` may be null, `name` is the whole's.
Result<const ConfigFamily*> find_inner_family(Fields* part, const ConfigWrapper* wrapper,
                                              std::string_view name) {
  // Their language models read a prompt to both sides, or what another model makes of it.
  for (const std::string_view other : {"PaliGemma", "paligemma", "Assistant", "assistant"})
    if (name.find(other) != name.npos) return unsupported_architecture(name, supported_names());
  std::string type = part != nullptr ? part->string("model_type", "") : "";
  if (type.empty() && wrapper == nullptr) return unsupported_architecture(name, supported_names());
  if (type.empty()) type = wrapper->text_type;
  for (const ConfigFamily& family : config_families())
    if (family.model_type == type) return &family;
  return unsupported_architecture(concat("text_config '", type, "' of ", name), supported_names());
}

// `part`: the language model's fields, where they lie apart; null: they do not.
Result<const ConfigFamily*> find_family(Fields& fields, Fields* part) {
  const std::string model_type = fields.string("model_type", "");
  std::string name;
  if (const json::value* list = fields.find("architectures")) {
    if (!list->is_array()) {
      fields.fail("architectures", "a list of strings");
    } else if (!list->get_array().empty()) {
      const json::value& first = list->get_array().front();
      if (first.is_string()) {
        name = first.get_string();
      } else {
        fields.fail("architectures", "a list of strings");
      }
    }
  }
  if (!fields.status().ok()) return fields.status();
  if (name.empty() && model_type.empty()) {
    return corrupt_data("config.json has neither 'architectures' nor 'model_type'");
  }
  for (const ConfigWrapper& wrapper : config_wrappers()) {
    if (name.empty() ? wrapper.model_type != model_type : !names_wrapper(name, wrapper)) continue;
    if (part == nullptr && !fields.written("hidden_size")) fields.fail("text_config", "given");
    if (!fields.status().ok()) return fields.status();
    return find_inner_family(part, &wrapper, name.empty() ? model_type : name);
  }
  if (part != nullptr) return find_inner_family(part, nullptr, name.empty() ? model_type : name);
  bool other_type = false;
  for (const ConfigFamily& architecture : config_families()) {
    const bool named = name.empty() ? model_type == architecture.model_type
                                    : name == architecture.hf_name || name == architecture.base_name ||
                                          classifies(name, architecture.base_name);
    if (named && (model_type.empty() || model_type == architecture.model_type)) return &architecture;
    other_type |= named;
  }
  if (other_type)
    return corrupt_data(concat("config.json: 'architectures' says ", name, " but 'model_type' says '",
                               printable(model_type), "'"));
  return unsupported_architecture(name.empty() ? model_type : name, supported_names());
}

// "fp8", "awq", ...; MLX has a field of its own, or none of the method.
std::string quantization_method(const json::object& how) {
  const json::value* method = how.if_contains("quant_method");
  if (method != nullptr && method->is_string()) return printable(std::string_view(method->get_string()), 40);
  if (how.contains("quant_algo")) return "modelopt";
  return how.contains("group_size") && how.contains("bits") ? "mlx" : "an unnamed method";
}

Status check_quantization(const ConfigFamily& family, Fields& fields) {
  const json::object* how = fields.object("quantization_config");
  if (how == nullptr) how = fields.object("quantization");
  if (how == nullptr || how->empty()) return fields.status();
  const std::string method = quantization_method(*how);
  if (method == "none" || (family.mxfp4 && method == "mxfp4")) return ok_status();
  return unsupported_quantization(method, family.mxfp4);
}

}  // namespace

Result<ModelConfig> parse_config_json(std::string_view text,
                                      std::optional<std::string_view> generation_config) {
  Result<json::object> document = parse_json_object(text, "config.json");
  if (!document) return document.error();
  Status status;
  Fields fields(*document, status);
  const json::object* const part = language_part(*document);
  Fields inner(part != nullptr ? *part : *document, status);
  const Result<const ConfigFamily*> found = find_family(fields, part != nullptr ? &inner : nullptr);
  if (!found) return found.error();
  const ConfigFamily& family = **found;
  ModelConfig config;
  config.architecture = family.name;
  config.family = family.model_type;
  for (Fields* each : {&fields, &inner}) PAGODA_RETURN_IF_ERROR(check_quantization(family, *each));
  family.read(inner, config);
  if (part != nullptr && config.encoder)
    fields.refuse(
        concat("a text encoder ('", family.model_type, "') inside of another model is not supported"));
  // Where the whole says so, it decides: it is the whole that has the head. Where nobody does, some wrappers
  // tie it and some do not, and the tensors show which.
  if (part != nullptr)
    config.tie_embeddings =
        fields.boolean("tie_word_embeddings", !inner.written("tie_word_embeddings") || config.tie_embeddings);
  sort_unasked(inner, "", config);
  if (config.embedding_size == 0) config.embedding_size = config.hidden_size;
  for (Fields* each : {&inner, &fields}) {
    if (each->written("eos_token_id")) config.eos_token_ids = each->integers("eos_token_id");
    if (each->written("pad_token_id")) config.pad_token_id = each->integer("pad_token_id", -1);
  }

  if (generation_config) {
    Result<json::object> generation = parse_json_object(*generation_config, "generation_config.json");
    if (!generation) return generation.error();
    Fields more(*generation, status, "generation_config.json");
    for (const std::int32_t id : more.integers("eos_token_id")) {
      if (std::find(config.eos_token_ids.begin(), config.eos_token_ids.end(), id) ==
          config.eos_token_ids.end()) {
        config.eos_token_ids.push_back(id);
      }
    }
  }
  if (!status.ok()) return status;
  Result<std::string> activation = normalize_activation(config.activation);
  if (!activation) return activation.error();
  config.activation = *activation;
  PAGODA_RETURN_IF_ERROR(finish_config(config));
  return config;
}

Result<std::string> architecture_of_config_json(std::string_view text) {
  Result<json::object> document = parse_json_object(text, "config.json");
  if (!document) return document.error();
  const json::object& object = *document;
  if (const json::value* list = object.if_contains("architectures"); list != nullptr && list->is_array()) {
    if (!list->get_array().empty() && list->get_array().front().is_string()) {
      return std::string(list->get_array().front().get_string());
    }
  }
  const json::value* type = object.if_contains("model_type");
  return type != nullptr && type->is_string() ? std::string(type->get_string()) : std::string();
}

}  // namespace pagoda
