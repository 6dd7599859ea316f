#include "models/read_config.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "loader/gguf_turn_ends.h"
#include "loader/hyperparameters.h"
#include "loader/json_object.h"
#include "loader/printable.h"
#include "loader/quantization.h"
#include "loader/weight_types.h"
#include "models/reading.h"

namespace pagoda {
namespace {

// True for the config's own class, or the same model without a head or with another head.
bool names_config(std::string_view name, const FamilyConfig& config) {
  if (name == config.class_name) return true;
  // The first Llama folders have this name.
  if (name == "LLaMAForCausalLM") return config.class_name == "LlamaForCausalLM";
  const std::string_view stem = config.stem();
  if (!name.starts_with(stem)) return false;
  constexpr std::string_view kEnds[] = {"Model", "TextModel", "ForSequenceClassification",
                                        "TextForSequenceClassification"};
  return std::ranges::find(kEnds, name.substr(stem.size())) != std::end(kEnds);
}

bool names_wrapper(std::string_view name, const FamilyWrapper& wrapper) {
  constexpr std::string_view kHead = "ForConditionalGeneration", kBase = "Model";
  if (name == wrapper.class_name) return true;
  std::string_view stem = wrapper.class_name;
  if (!stem.ends_with(kHead) || !name.ends_with(kBase)) return false;
  stem.remove_suffix(kHead.size());
  name.remove_suffix(kBase.size());
  return name == stem;
}

// A family, and the one of its configs that a file names.
struct Found {
  const Family* family = nullptr;
  const FamilyConfig* config = nullptr;
};

Found find_type(std::string_view model_type) {
  for (const Family* family : families())
    for (const FamilyConfig& config : family->configs)
      if (config.model_type == model_type) return {family, &config};
  return {};
}

// Finds the family of a wrapper's language model, whose model_type is in `part`; null: the fields are beside
// the others. `wrapper` may be null; `name` is the whole model's.
Result<Found> find_inner_family(Hyperparameters* part, const FamilyWrapper* wrapper, std::string_view name) {
  // Their language models attend to a prompt in both directions, or read another model's output.
  for (const std::string_view other : {"PaliGemma", "paligemma", "Assistant", "assistant"})
    if (name.find(other) != name.npos) return unsupported_config(name);
  std::string type = part != nullptr ? part->string("model_type", "") : "";
  if (type.empty() && wrapper == nullptr) return unsupported_config(name);
  if (type.empty()) type = wrapper->text_type;
  if (const Found found = find_type(type); found.family != nullptr) return found;
  return unsupported_config(concat("text_config '", type, "' of ", name));
}

// The first of "architectures"; empty if there is none.
std::string class_name_of(Hyperparameters& h) {
  const json::value* list = h.find("architectures");
  if (list == nullptr) return {};
  const json::array* names = list->if_array();
  if (names != nullptr && names->empty()) return {};
  if (names != nullptr && names->front().is_string()) return std::string(names->front().get_string());
  h.fail("architectures", "a list of strings");
  return {};
}

// `part`: the language model's fields if they are separate; otherwise null.
Result<Found> find_family(Hyperparameters& h, Hyperparameters* part) {
  const std::string model_type = h.string("model_type", "");
  const std::string name = class_name_of(h);
  if (!h.status().ok()) return h.status();
  if (name.empty() && model_type.empty() && h.written("ssm_cfg"))
    return unimplemented(
        "config.json is that of the original Mamba code ('ssm_cfg'), which is not supported; transformers' "
        "form of the same models is: folders whose names end in -hf");
  if (name.empty() && model_type.empty())
    return corrupt_data("config.json has neither 'architectures' nor 'model_type'");
  const std::string_view called = name.empty() ? model_type : name;
  for (const Family* family : families())
    for (const FamilyWrapper& wrapper : family->wrappers) {
      if (name.empty() ? wrapper.model_type != model_type : !names_wrapper(name, wrapper)) continue;
      if (part == nullptr && !h.written("hidden_size")) h.fail("text_config", "given");
      if (!h.status().ok()) return h.status();
      return find_inner_family(part, &wrapper, called);
    }
  if (part != nullptr) return find_inner_family(part, nullptr, called);
  Found first;
  bool other_type = false;
  for (const Family* family : families())
    for (const FamilyConfig& config : family->configs) {
      const bool named = name.empty() ? model_type == config.model_type : names_config(name, config);
      other_type |= named;
      if (!named || (!model_type.empty() && model_type != config.model_type)) continue;
      // Without a model_type, a class shared by several families belongs to the family named after it.
      if (first.family == nullptr || &config == &family->configs.front()) first = {family, &config};
    }
  if (first.family != nullptr) return first;
  if (other_type)
    return corrupt_data(concat("config.json: 'architectures' says ", name, " but 'model_type' says '",
                               printable(model_type), "'"));
  return unsupported_config(called);
}

void read_special_tokens(const GgufFile& file, ModelInfo& model) {
  const auto token = [&](std::string_view name) -> std::int32_t {
    const std::optional<std::int64_t> id = file.integer(concat("tokenizer.ggml.", name, "_token_id"));
    // UINT32_MAX stands for "none" in some files; ids outside the vocabulary are dropped later.
    return id && *id >= 0 && *id <= std::numeric_limits<std::int32_t>::max() ? static_cast<std::int32_t>(*id)
                                                                             : -1;
  };
  model.bos_token_id = token("bos");
  model.pad_token_id = token("padding");
  const auto add_end = [&](std::int64_t id) {
    if (id < 0 || id > std::numeric_limits<std::int32_t>::max()) return;
    const auto end = static_cast<std::int32_t>(id);
    if (std::ranges::find(model.eos_token_ids, end) == model.eos_token_ids.end())
      model.eos_token_ids.push_back(end);
  };
  // The file's own end tokens of text, turn, message and infilled code; the list is Ollama's.
  for (const std::string_view name : {"eos", "eot", "eom", "fim_pad", "fim_rep", "fim_sep"})
    add_end(token(name));
  if (const GgufArray* list = file.array("tokenizer.ggml.eos_token_ids"))
    for (const std::int64_t id : list->integers) add_end(id);
  for (const std::int32_t id : gguf_turn_ends(file)) add_end(id);
}

// Applies the family's shape, drops special tokens outside the vocabulary, and checks the sizes.
Status finish(const Family& family, ModelInfo& model) {
  if (family.shape != nullptr) family.shape(model.decoder);
  const auto outside = [&](std::int32_t id) { return id < 0 || id >= model.decoder.vocab_size; };
  if (outside(model.bos_token_id)) model.bos_token_id = -1;
  if (outside(model.pad_token_id)) model.pad_token_id = -1;
  std::ranges::copy_if(model.eos_token_ids, std::back_inserter(model.unknown_eos_token_ids), outside);
  std::erase_if(model.eos_token_ids, outside);
  return check_decoder(model.decoder);
}

}  // namespace

Result<ModelInfo> read_config_json(std::string_view text, std::optional<std::string_view> generation_config) {
  PAGODA_ASSIGN_OR_RETURN(json::object document, parse_json_object(text, "config.json"));
  Status status;
  Hyperparameters whole(document, status);
  const json::object* const part = language_part(document);
  Hyperparameters inner(part != nullptr ? *part : document, status);
  PAGODA_ASSIGN_OR_RETURN(const Found found, find_family(whole, part != nullptr ? &inner : nullptr));
  const Family& family = *found.family;
  ModelInfo model;
  model.family = &family;
  model.architecture = found.config->architecture.empty() ? family.called() : found.config->architecture;
  model.type = found.config->model_type;
  if (const json::object* how = quantization_object(document))
    if (const auto quantization = read_quantization(*how); !quantization) return quantization.error();
  PAGODA_ASSIGN_OR_RETURN(const json::object absent,
                          parse_json_object(found.config->absent, family.row.name));
  inner.use_defaults(absent);
  if (found.config->reads == Reads::rest) read_common(inner, model);
  if (found.config->more != nullptr) found.config->more(inner, model);
  if (part != nullptr && is_encoder(model.decoder))
    whole.refuse(concat("a text encoder ('", model.type, "') inside of another model is not supported"));
  // The whole model's field decides, since it has the head. If it is absent, some wrappers tie the head and
  // some do not; the tensors show which.
  bool& tied = model.decoder.tied_head;
  if (part != nullptr)
    tied = whole.boolean("tie_word_embeddings", !inner.written("tie_word_embeddings") || tied);
  for (std::string& option : inner.refuse_unread()) model.unknown_options.push_back(std::move(option));
  for (Hyperparameters* each : {&inner, &whole}) {
    if (each->find("eos_token_id") != nullptr)
      model.eos_token_ids = each->integers("eos_token_id");
    else if (each->written("eos_token_id"))
      model.eos_token_ids.clear();
    if (each->written("pad_token_id")) model.pad_token_id = each->nullable_integer("pad_token_id", -1);
  }
  if (generation_config) {
    PAGODA_ASSIGN_OR_RETURN(json::object generation,
                            parse_json_object(*generation_config, "generation_config.json"));
    Hyperparameters more(generation, status, "generation_config.json: '");
    for (const std::int32_t id : more.integers("eos_token_id"))
      if (std::ranges::find(model.eos_token_ids, id) == model.eos_token_ids.end())
        model.eos_token_ids.push_back(id);
  }
  if (!status.ok()) return status;
  PAGODA_RETURN_IF_ERROR(finish(family, model));
  return model;
}

Result<ModelInfo> read_gguf_config(const GgufFile& file) {
  PAGODA_RETURN_IF_ERROR(file.check_is_model());
  const std::string* architecture = file.string("general.architecture");
  if (architecture == nullptr) return corrupt_data("GGUF metadata 'general.architecture' is missing");
  Status status;
  Hyperparameters h(file, status);
  const Family* const family = find_gguf_family(*architecture, h.integer("num_experts", 0) > 0);
  if (family == nullptr) return unsupported_gguf(*architecture);
  ModelInfo model;
  model.family = family;
  model.architecture = model.type = *architecture;
  if (const std::string* name = file.string("general.name")) model.name = *name;
  const FamilyGguf& how = *std::ranges::find(family->ggufs, *architecture, &FamilyGguf::name);
  if (how.reads == Reads::rest) read_gguf_common(h, how.traits, model);
  if (how.more != nullptr) how.more(h, model);
  model.unknown_options = h.refuse_unread();
  read_special_tokens(file, model);
  if (!status.ok()) return status;
  model.decoder.tied_head = !h.has_tensor("output.weight");
  model.weight_type = describe_types(file);
  PAGODA_RETURN_IF_ERROR(finish(*family, model));
  return model;
}

namespace {

// Drops Falcon-H1's multipliers that mlx-lm folds into weights. mlx-lm does not fold those of keys and
// values; for a tied head it leaves the logits' factor divided by the embedding's.
void drop_folded_factors(DecoderConfig& decoder) {
  for (LayerConfig& layer : decoder.layers) {
    if (auto* const mixers = std::get_if<ParallelMixersConfig>(&layer.mixer)) {
      AttentionConfig& attention = mixers->attention;
      attention.key_factor /= attention.input_factor;
      attention.query_factor = attention.input_factor = attention.output_factor = 1;
      mixers->linear.in_factors = LinearAttentionConfig{}.in_factors;
      mixers->linear.input_factor = mixers->linear.out_factor = 1;
    }
    if (DenseFeedForwardConfig* const dense = layer.dense()) dense->gate_factor = dense->down_factor = 1;
  }
  decoder.logit_scale = decoder.tied_head ? decoder.logit_scale / decoder.embedding_scale : 1;
  decoder.embedding_scale = 1;
}

// Besides transposing convolutions, mlx-lm changes other weights: it adds 1 to norms that are stored without
// it, and folds in Falcon-H1's multipliers.
void undo_mlx_changes(const ModelSource& source, ModelInfo& model) {
  const bool turned = std::ranges::any_of(source.tensor_names(), [&](const std::string& name) {
    return name.ends_with("conv1d.weight") && has_mlx_taps(source.find(name)->shape);
  });
  if (!turned) return;
  if (model.type == "falcon_h1")
    drop_folded_factors(model.decoder);
  else
    each_norm(model.decoder, [](NormConfig& norm) { norm.weight_offset = 0; });
}

}  // namespace

Result<ModelInfo> read_model_config(const ModelSource& source) {
  Result<ModelInfo> model =
      source.gguf() != nullptr
          ? read_gguf_config(*source.gguf())
          : read_config_json(source.config_json(), source.side_file("generation_config.json"));
  if (!model) return model.error().annotate(printable(source.path()));
  if (source.gguf() == nullptr) undo_mlx_changes(source, *model);
  model->name = source.name();
  model->weight_type = source.weight_type();
  return model;
}

Result<std::string> architecture_of_config_json(std::string_view text) {
  PAGODA_ASSIGN_OR_RETURN(json::object document, parse_json_object(text, "config.json"));
  Status ignored;  // read_config_json() reports the error
  Hyperparameters h(document, ignored);
  std::string name = class_name_of(h);
  return name.empty() ? h.string("model_type", "") : std::move(name);
}

}  // namespace pagoda
