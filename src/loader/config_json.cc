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

std::string supported_names() {
  std::string names;
  for (const ConfigFamily& family : config_families())
    names += concat(names.empty() ? "" : ", ", family.hf_name);
  return names;
}

// "Qwen3ForSequenceClassification" of "Qwen3Model": the same model with another head.
bool classifies(std::string_view name, std::string_view base_name) {
  constexpr std::string_view kBase = "Model", kHead = "ForSequenceClassification";
  return base_name.ends_with(kBase) && name.ends_with(kHead) &&
         name.substr(0, name.size() - kHead.size()) == base_name.substr(0, base_name.size() - kBase.size());
}

Result<const ConfigFamily*> find_family(Fields& fields) {
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

// Of a wrapper, the family that its text_config names, or else the wrapper's own.
Result<const ConfigFamily*> text_family(Fields& text, const ConfigFamily& wrapper) {
  const std::string model_type = text.string("model_type", "");
  if (model_type.empty()) return &wrapper;
  for (const ConfigFamily& family : config_families())
    if (!family.wrapped && family.model_type == model_type) return &family;
  return unsupported_architecture(concat("text_config '", model_type, "' of ", wrapper.hf_name),
                                  supported_names());
}

Status check_quantization(const ConfigFamily& family, Fields& fields) {
  if (fields.find("quantization_config") == nullptr) return ok_status();
  if (family.mxfp4) {
    if (const json::object* how = fields.object("quantization_config")) {
      const json::value* method = how->if_contains("quant_method");
      if (method != nullptr && *method == "mxfp4") return ok_status();
    }
  }
  return unimplemented(concat("config.json: 'quantization_config' is not supported; supported: ",
                              family.mxfp4 ? "MXFP4, " : "", "F32, F16 and BF16 weights, or a GGUF file"));
}

}  // namespace

Result<ModelConfig> parse_config_json(std::string_view text,
                                      std::optional<std::string_view> generation_config) {
  Result<json::object> document = parse_json_object(text, "config.json");
  if (!document) return document.error();
  Status status;
  Fields fields(*document, status);
  const Result<const ConfigFamily*> found = find_family(fields);
  if (!found) return found.error();
  const bool wrapped = (*found)->wrapped;

  ModelConfig config;
  const json::object* text_config = wrapped ? fields.object("text_config") : nullptr;
  if (wrapped && text_config == nullptr) fields.fail("text_config", "given");
  if (!status.ok()) return status;
  Fields inner(text_config != nullptr ? *text_config : *document, status);
  const Result<const ConfigFamily*> read_by = wrapped ? text_family(inner, **found) : found;
  if (!read_by) return read_by.error();
  const ConfigFamily& family = **read_by;
  config.architecture = family.name;
  config.family = family.model_type;
  for (Fields* each : {&fields, &inner}) PAGODA_RETURN_IF_ERROR(check_quantization(family, *each));
  family.read(inner, config);
  // Where the whole says so, it decides: it is the whole that has the head.
  if (wrapped) config.tie_embeddings = fields.boolean("tie_word_embeddings", config.tie_embeddings);
  sort_unasked(inner, "", config);
  if (config.embedding_size == 0) config.embedding_size = config.hidden_size;
  for (Fields* each : {&inner, &fields}) {
    if (each->written("eos_token_id")) config.eos_token_ids = each->integers("eos_token_id");
    if (each->written("pad_token_id")) config.pad_token_id = each->integer("pad_token_id", -1);
  }

  if (generation_config) {
    Result<json::object> generation = parse_json_object(*generation_config, "generation_config.json");
    if (!generation) return generation.error();
    Fields more(*generation, status);
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
