// GGUF metadata that every family has.
#include <algorithm>
#include <limits>

#include "models/reading.h"

namespace pagoda {
namespace {

// Heads and the size of the feed-forward, one for all layers or one for each.
void read_sizes(Hyperparameters& h, ModelConfig& config) {
  const std::int32_t drafting = h.integer("nextn_predict_layers", 0);
  const auto of_layers = [&](std::string_view name, std::optional<std::int32_t> absent = std::nullopt) {
    std::vector<std::int32_t> each = h.of_layers(name, config.num_layers + drafting, absent);
    each.resize(std::min(each.size(), static_cast<std::size_t>(std::max(config.num_layers, 0))));
    return each;
  };
  const std::vector<std::int32_t> heads = of_layers("attention.head_count");
  if (heads.empty()) return;
  const std::int32_t most = *std::ranges::max_element(heads);
  const std::vector<std::int32_t> kv_heads =
      h.written("attention.head_count_kv") ? of_layers("attention.head_count_kv") : heads;
  // If all layers have experts, some files leave it out.
  const auto absent = h.written("expert_feed_forward_length") ? std::optional<std::int32_t>(0) : std::nullopt;
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

}  // namespace

void read_gguf_common(Hyperparameters& h, const GgufTraits& family, ModelConfig& config) {
  const GgufFile& file = *h.gguf();
  if (h.integer("num_experts", 0) > 0 && !family.experts.known)
    return h.fail(unsupported_gguf(concat(config.type, " with experts")));
  const auto embedding = std::ranges::find(file.tensor_list(), "token_embd.weight", &GgufTensor::name);
  const GgufArray* tokens = file.array("tokenizer.ggml.tokens");
  if (embedding != file.tensor_list().end())  // the one that decides: logits have its rows
    config.vocab_size = static_cast<std::int32_t>(
        std::min<std::int64_t>(embedding->shape.front(), std::numeric_limits<std::int32_t>::max()));
  else
    config.vocab_size =
        h.integer("vocab_size", tokens != nullptr ? static_cast<std::int32_t>(tokens->size()) : 0);
  config.hidden_size = config.embedding_size = h.integer("hidden_size");
  // Blocks behind the model may only draft tokens.
  config.num_layers = h.integer("num_hidden_layers") - h.integer("num_nextn_predict_layers", 0);
  read_sizes(h, config);
  config.head_size = h.integer("head_dim", config.num_heads > 0 ? config.hidden_size / config.num_heads : 0);
  if (!family.latent && h.integer("attention.value_length", config.head_size) != config.head_size)
    h.refuse("value heads of another size than key heads are not supported");
  for (LayerSizes& layer : config.layer_sizes) layer.head_size = config.head_size;
  config.max_positions = h.integer("max_position_embeddings");
  if (config.max_positions == config.hidden_size && family.context_instead_of_width > 0)
    config.max_positions = family.context_instead_of_width;
  config.sliding_window = h.integer("sliding_window", 0);
  if (!family.encoder && !h.boolean("attention.causal", true))
    h.refuse("a model without causal attention is not supported");
  const bool parallel = h.boolean("use_parallel_residual", false);
  config.parallel = family.parallel || (family.may_be_parallel && parallel);
  if (parallel && !config.parallel) h.only("use_parallel_residual", false);
  config.activation = family.activation;
  config.encoder = family.encoder;
  config.rotates = family.rotates;
  config.attention_bias = family.layer_norm || config.type == "qwen2";
  config.rope_interleaved_rows = family.interleaved_rows;
  // Families with either kind have RMS norms if the file has that key.
  const bool either = family.may_have_rms_norms && h.written("rms_norm_eps");
  config.norm_eps = h.number(family.layer_norm && !either ? "layer_norm_eps" : "rms_norm_eps");
  if (family.rotates) read_gguf_rope(h, config);
  if (family.experts.known) read_experts(h, family.experts, config);
}

}  // namespace pagoda
