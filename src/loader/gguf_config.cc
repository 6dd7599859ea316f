#include "loader/gguf_config.h"

#include <algorithm>
#include <limits>

#include "base/strings.h"
#include "loader/gguf_families.h"
#include "loader/gguf_turn_ends.h"
#include "loader/printable.h"

namespace pagoda {
namespace {

void read_special_tokens(const GgufFile& file, ModelConfig& config) {
  const auto token = [&](std::string_view name) -> std::int32_t {
    const std::optional<std::int64_t> id = file.integer(concat("tokenizer.ggml.", name, "_token_id"));
    // UINT32_MAX stands for "none" in some files; anything outside the vocabulary is dropped later.
    return id && *id >= 0 && *id <= std::numeric_limits<std::int32_t>::max() ? static_cast<std::int32_t>(*id)
                                                                             : -1;
  };
  config.bos_token_id = token("bos");
  config.pad_token_id = token("padding");
  const auto add_end = [&](std::int64_t id) {
    if (id < 0 || id > std::numeric_limits<std::int32_t>::max()) return;
    const auto end = static_cast<std::int32_t>(id);
    if (std::ranges::find(config.eos_token_ids, end) == config.eos_token_ids.end())
      config.eos_token_ids.push_back(end);
  };
  // The file's own ends of text, turn, message and filled-in code; the list is Ollama's.
  for (const std::string_view name : {"eos", "eot", "eom", "fim_pad", "fim_rep", "fim_sep"})
    add_end(token(name));
  if (const GgufArray* list = file.array("tokenizer.ggml.eos_token_ids"))
    for (const std::int64_t id : list->integers) add_end(id);
  for (const std::int32_t id : gguf_turn_ends(file)) add_end(id);
}

void read_experts(Keys& keys, const GgufExperts& family, ModelConfig& config) {
  ExpertsConfig& experts = config.experts;
  experts.count = keys.integer("expert_count", 0);
  if (experts.count == 0) return;
  experts.per_token = keys.integer("expert_used_count");
  experts.intermediate_size = keys.integer("expert_feed_forward_length", config.intermediate_size);
  if (config.intermediate_size == 0) config.intermediate_size = experts.intermediate_size;
  const std::int32_t shared = keys.integer("expert_shared_count", 0);
  const std::int64_t shared_size = std::int64_t{shared} * experts.intermediate_size;
  experts.shared_intermediate_size =
      keys.integer("expert_shared_feed_forward_length",
                   static_cast<std::int32_t>(std::clamp<std::int64_t>(shared_size, -1, 1 << 30)));
  experts.score = family.score;
  switch (const std::int32_t score = keys.integer("expert_gating_func", 0)) {
    case 0:
      break;
    case 1:
      experts.score = ExpertScore::softmax;
      break;
    case 2:
      experts.score = ExpertScore::sigmoid;
      break;
    case 3:
      experts.score = ExpertScore::softmax_of_chosen;
      break;
    default:
      keys.fail(unimplemented(
          concat("GGUF option 'expert_gating_func' = ", score,
                 " is not supported; supported: 1, 2, 3 (softmax, sigmoid, softmax of those chosen)")));
  }
  experts.renormalize = keys.boolean("expert_weights_norm", family.renormalize);
  const float scale = keys.number("expert_weights_scale", 1.0f);
  experts.scale = scale == 0 ? 1.0f : scale;
  experts.groups = std::max(keys.integer("expert_group_count", 1), 1);
  experts.groups_used = std::max(keys.integer("expert_group_used_count", 1), 1);
  const std::int32_t leading = keys.integer("leading_dense_block_count", 0);
  const std::int32_t step = std::max(keys.integer("interleave_moe_layer_step", 1), 1);
  for (std::int32_t layer = 0; layer < std::clamp(config.num_layers, 0, 4096); ++layer)
    experts.layers.push_back(layer >= leading && (layer + 1) % step == 0);
}

// Heads and the size of the feed-forward, one for all layers or one for each.
void read_sizes(Keys& keys, ModelConfig& config) {
  const std::int32_t drafting = keys.integer("nextn_predict_layers", 0);
  const auto of_layers = [&](std::string_view name, std::optional<std::int32_t> absent = std::nullopt) {
    std::vector<std::int32_t> each = keys.of_layers(name, config.num_layers + drafting, absent);
    each.resize(std::min(each.size(), static_cast<std::size_t>(std::max(config.num_layers, 0))));
    return each;
  };
  const std::vector<std::int32_t> heads = of_layers("attention.head_count");
  if (heads.empty()) return;
  const std::int32_t most = *std::ranges::max_element(heads);
  const std::vector<std::int32_t> kv_heads =
      keys.has("attention.head_count_kv") ? of_layers("attention.head_count_kv") : heads;
  // Where all layers have experts, some files leave it out.
  const auto absent = keys.has("expert_feed_forward_length") ? std::optional<std::int32_t>(0) : std::nullopt;
  const std::vector<std::int32_t> inner = of_layers("feed_forward_length", absent);
  if (kv_heads.size() != heads.size() || inner.size() != heads.size()) return;
  // The model's own are those of the layer with the most heads; what later arithmetic relies on is checked
  // of every layer.
  const auto largest = static_cast<std::size_t>(std::ranges::find(heads, most) - heads.begin());
  config.num_heads = most;
  config.num_kv_heads = kv_heads[largest];
  config.intermediate_size = inner.front();
  const auto differ = [](const std::vector<std::int32_t>& each) {
    return std::ranges::adjacent_find(each, std::ranges::not_equal_to()) != each.end();
  };
  if (!differ(heads) && !differ(kv_heads) && !differ(inner)) return;
  config.intermediate_size = *std::ranges::max_element(inner);
  for (std::size_t layer = 0; layer < heads.size(); ++layer)
    config.layer_sizes.push_back(
        {.num_kv_heads = kv_heads[layer], .intermediate_size = inner[layer], .num_heads = heads[layer]});
}

std::vector<std::string_view> supported_names() {
  std::vector<std::string_view> names;
  for (const GgufFamily& family : gguf_families()) names.push_back(family.name);
  return names;
}

}  // namespace

Result<ModelConfig> gguf_config(const GgufFile& file) {
  const std::string* architecture = file.string("general.architecture");
  if (const std::string* type = file.string("general.type"); type != nullptr && *type == "adapter") {
    const std::string *kind = file.string("adapter.type"), *of = file.string("general.base_model.0.name");
    return unimplemented(concat("the file is an adapter (", kind != nullptr ? printable(*kind) : "LoRA", ")",
                                of != nullptr ? concat(" of ", printable(*of)) : "",
                                ", not a model; adapters are not supported: merge it into its model"));
  }
  if (architecture == nullptr) return corrupt_data("GGUF metadata 'general.architecture' is missing");
  const std::span<const GgufFamily> families = gguf_families();
  const auto family = std::find_if(families.begin(), families.end(),
                                   [&](const GgufFamily& each) { return each.name == *architecture; });
  if (*architecture == "clip")
    return unimplemented("the file is the vision or audio part of a model (mmproj), not the model");
  if (family == families.end()) return unsupported_architecture(*architecture, supported_names());

  ModelConfig config;
  config.architecture = config.family = *architecture;
  if (const std::string* name = file.string("general.name")) config.name = *name;
  Keys keys(file, *architecture);
  if (keys.integer("expert_count", 0) > 0 && !family->experts.known)
    return unsupported_architecture(concat(*architecture, " with experts"), supported_names());
  keys.refuse_unknown(family->own_keys, family->experts.known, config);

  const auto embedding =
      std::find_if(file.tensor_list().begin(), file.tensor_list().end(),
                   [](const GgufTensor& tensor) { return tensor.name == "token_embd.weight"; });
  const GgufArray* tokens = file.array("tokenizer.ggml.tokens");
  if (embedding != file.tensor_list().end()) {  // the one that decides: logits have its rows
    config.vocab_size = static_cast<std::int32_t>(
        std::min<std::int64_t>(embedding->shape.front(), std::numeric_limits<std::int32_t>::max()));
  } else {
    config.vocab_size =
        keys.integer("vocab_size", tokens != nullptr ? static_cast<std::int32_t>(tokens->size()) : 0);
  }
  config.hidden_size = config.embedding_size = keys.integer("embedding_length");
  // Blocks behind the model may only draft tokens.
  config.num_layers = keys.integer("block_count") - keys.integer("nextn_predict_layers", 0);
  read_sizes(keys, config);
  config.head_size =
      keys.integer("attention.key_length", config.num_heads > 0 ? config.hidden_size / config.num_heads : 0);
  if (!family->latent && keys.integer("attention.value_length", config.head_size) != config.head_size) {
    keys.fail(unimplemented("value heads of another size than key heads are not supported"));
  }
  for (LayerSizes& layer : config.layer_sizes) layer.head_size = config.head_size;
  config.max_positions = keys.integer("context_length");
  if (config.max_positions == config.hidden_size && family->context_instead_of_width > 0)
    config.max_positions = family->context_instead_of_width;
  config.sliding_window = keys.integer("attention.sliding_window", 0);
  const auto causal = file.metadata().find(concat(*architecture, ".attention.causal"));
  if (causal != file.metadata().end() && causal->second == GgufValue(false) && !family->encoder) {
    keys.fail(unimplemented("a model without causal attention is not supported"));
  }
  const bool parallel = file.boolean(concat(*architecture, ".use_parallel_residual")).value_or(false);
  config.parallel = family->parallel || (family->may_be_parallel && parallel);
  if (parallel && !config.parallel) {
    keys.fail(
        unimplemented(concat("GGUF option '", *architecture, ".use_parallel_residual' is not supported")));
  }
  config.activation = family->activation;
  config.encoder = family->encoder;
  config.attention_bias = family->layer_norm || *architecture == "qwen2";
  config.rope_interleaved_rows = family->interleaved_rows;
  // Of families that have either, RMS norms where the file says how.
  const bool either = family->may_have_rms_norms && keys.has("attention.layer_norm_rms_epsilon");
  config.norm_eps = keys.number(family->layer_norm && !either ? "attention.layer_norm_epsilon"
                                                              : "attention.layer_norm_rms_epsilon");
  if (family->rotates) read_gguf_rope(file, keys, config);
  read_special_tokens(file, config);
  if (family->experts.known) read_experts(keys, family->experts, config);
  if (family->read != nullptr) family->read(file, keys, config);
  if (!keys.status().ok()) return keys.status();

  std::map<std::string, std::int64_t> bytes_by_type;
  config.tie_embeddings = true;
  for (const GgufTensor& tensor : file.tensor_list()) {
    bytes_by_type[std::string(tensor.type)] += tensor.bytes;
    if (tensor.name == "output.weight") config.tie_embeddings = false;
  }
  config.weight_type = describe_types(bytes_by_type);
  PAGODA_RETURN_IF_ERROR(finish_config(config));
  return config;
}

}  // namespace pagoda
