// Fields that most families have under the same names.
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "models/reading.h"

namespace pagoda {
namespace {

// Names of sizes in config.json; Llama's come last.
using Names = std::span<const std::string_view>;
constexpr std::string_view kHidden[] = {"n_embd", "n_embed", "d_model", "hidden_size"},
                           kLayers[] = {"n_layer", "n_layers", "num_layers", "num_hidden_layers"},
                           kHeads[] = {"n_head", "n_heads", "num_attention_heads"},
                           kPositions[] = {"n_positions", "max_seq_len", "seq_length",
                                           "max_position_embeddings"},
                           kInner[] = {"n_inner", "ffn_dim", "ffn_hidden_size", "intermediate_size"},
                           kEps[] = {"layer_norm_epsilon", "layer_norm_eps", "norm_eps", "norm_epsilon",
                                     "rms_norm_eps"},
                           kActivation[] = {"activation_function", "activation", "mlp_hidden_act",
                                            "hidden_activation", "hidden_act"};

// Returns the name that the file uses, among those with a family default; otherwise the family's first.
std::string_view name_of(const Hyperparameters& h, Names names) {
  std::string_view first;
  for (const std::string_view name : names) {
    if (h.default_of(name) == nullptr) continue;
    if (h.find(name) != nullptr) return name;
    if (first.empty()) first = name;
  }
  return first.empty() ? names.back() : first;
}

}  // namespace

void make_layers(Hyperparameters& h, std::int32_t count, const LayerSizes& sizes, ModelInfo& model) {
  const auto activation = activation_named(sizes.activation);
  if (!activation) h.fail(activation.error());
  const bool plausible = count >= 1 && count <= kMaxLayers;
  if (!plausible)
    h.corrupt(concat("the model's number of layers is ", count, ", not between 1 and ", kMaxLayers));
  const NormConfig norm = {.kind = NormKind::rms, .eps = sizes.norm_eps};
  const auto head_size = static_cast<float>(sizes.head_size);
  const LayerConfig layer = {
      .mixer = AttentionConfig{.num_heads = sizes.num_heads,
                               .num_kv_heads = sizes.num_kv_heads,
                               .head_size = sizes.head_size,
                               .rope = kNoRope,
                               .scale = 1.0f / std::sqrt(head_size)},
      .feed_forward = DenseFeedForwardConfig{.intermediate_size = sizes.intermediate_size,
                                             .activation = activation ? *activation : Activation::silu},
      .norm = norm,
      .mixer_norms = {},
      .feed_forward_norms = {}};
  model.decoder.final_norm = norm;
  model.decoder.layers.assign(plausible ? static_cast<std::size_t>(count) : 1, layer);
  model.intermediate_size = sizes.intermediate_size;
}

const json::array* list_of_layers(Hyperparameters& h, std::string_view name, const ModelInfo& model) {
  const json::array* const list = h.list(name);
  if (list != nullptr && list->size() == model.decoder.layers.size()) return list;
  if (h.find(name) != nullptr) h.fail(name, "a list with one entry for each layer");
  return nullptr;
}

void set_intermediate_size(std::int32_t size, ModelInfo& model) {
  model.intermediate_size = size;
  for (LayerConfig& layer : model.decoder.layers)
    if (DenseFeedForwardConfig* const dense = layer.dense()) dense->intermediate_size = size;
}

void read_layers(Hyperparameters& h, ModelInfo& model, const KnownSizes& known) {
  DecoderConfig& decoder = model.decoder;
  decoder.vocab_size = h.integer("vocab_size", 32000);
  decoder.hidden_size = decoder.embedding_size = h.integer(name_of(h, kHidden), 4096);
  decoder.max_positions = h.integer(name_of(h, kPositions), 2048);
  const std::int32_t heads = h.integer(name_of(h, kHeads), 32);
  const std::int32_t whole = divide(decoder.hidden_size, heads);
  const std::string activation =
      known.activation ? std::string(*known.activation) : h.string(name_of(h, kActivation), "silu");
  h.without_effect("hidden_act attention_bias");  // in another field; implied by the tensors
  make_layers(h, known.layers ? *known.layers : h.integer(name_of(h, kLayers), 32),
              {.num_heads = heads,
               .num_kv_heads = known.plain_heads ? heads : h.nullable_integer("num_key_value_heads", heads),
               .head_size = known.plain_heads ? whole : h.nullable_integer("head_dim", whole),
               .intermediate_size = known.inner ? *known.inner : h.integer(name_of(h, kInner), 0),
               .norm_eps = h.number(name_of(h, kEps), 1e-5f),
               .activation = activation},
              model);
  decoder.interleaved_rows = h.default_of("rope_interleave") != nullptr && h.boolean("rope_interleave", true);
  decoder.tied_head = h.boolean("tie_word_embeddings", false);
  model.bos_token_id = h.nullable_integer("bos_token_id", -1);
  model.pad_token_id = h.nullable_integer("pad_token_id", -1);
  model.eos_token_ids = h.integers("eos_token_id");
}

void read_common(Hyperparameters& h, ModelInfo& model) {
  read_layers(h, model);
  if (h.default_of("local_rope_theta") == nullptr) return read_rope(h, model);
  const std::string_view local = h.find("rope_theta") != nullptr ? "rope_theta" : "local_rope_theta";
  read_rope_by_layer(h, model, 10000.0f, h.number(local));
}

void read_plain_layers(Hyperparameters& h, ModelInfo& model, KnownSizes known) {
  known.plain_heads = true;
  read_layers(h, model, known);
  const DecoderConfig& decoder = model.decoder;
  if (model.intermediate_size == 0) set_intermediate_size(times(4, decoder.hidden_size), model);
  const std::int32_t heads = decoder.layers.front().attention()->num_heads;
  if (heads > 0 && decoder.hidden_size % heads != 0)
    h.corrupt("config.json: the hidden size is not a multiple of the number of heads");
}

void read_granite_scales(Hyperparameters& h, ModelInfo& model) {
  const float residual = h.number("residual_multiplier", 1.0f);
  const float attention = h.number("attention_multiplier", h.gguf() != nullptr ? 0.0f : 1.0f);
  model.decoder.embedding_scale = h.number("embedding_multiplier", 1.0f);
  model.decoder.logit_scale = 1 / h.number("logits_scaling", 1.0f);
  scale_residual(residual, model.decoder);
  if (attention != 0) scale_attention(attention, model.decoder);
}

void read_gguf_granite(Hyperparameters& h, ModelInfo& model) {
  read_granite_scales(h, model);
  // Granite 4 files in which all layers have attention still have sizes of states.
  h.without_effect(
      "ssm.conv_kernel ssm.time_step_rank ssm.group_count ssm.state_size ssm.inner_size "
      "expert_shared_feed_forward_length");
}

void read_granite_moe(Hyperparameters& h, ModelInfo& model) {
  read_granite_scales(h, model);
  MixtureConfig mixture = read_experts(h, model);
  mixture.routing.score = RouterScore::softmax_of_chosen;
  mixture.shared_intermediate_size = h.integer("shared_intermediate_size");
  // Every layer has the shared expert; without other experts it is the layer's feed-forward.
  if (mixture.routing.num_experts == 0 && mixture.shared_intermediate_size > 0)
    set_intermediate_size(mixture.shared_intermediate_size, model);
  use_mixtures(mixture, {}, model);
}

void read_cohere(Hyperparameters& h, ModelInfo& model) {
  model.decoder.logit_scale = h.number("logit_scale", 1.0f);
  set_parallel(model.decoder);
}

bool has_query_norm(const Hyperparameters& h) { return h.has_tensor("blk.0.attn_q_norm.weight"); }

void read_gpt2(Hyperparameters& h, ModelInfo& model) {
  read_plain_layers(h, model);
  h.only("scale_attn_weights", true);
  h.only("add_cross_attention", false);
}

void read_gguf_gpt2(Hyperparameters& h, ModelInfo& model) {
  read_gguf_common(h, {.activation = "gelu_new", .layer_norm = true, .rotates = false}, model);
}

void read_bert(Hyperparameters& h, ModelInfo& model, const KnownSizes& known) {
  read_plain_layers(h, model, known);
  see_both_sides(model.decoder);
  model.decoder.token_types = std::max(h.integer("type_vocab_size", 2), 0);
  model.decoder.tied_head = false;
  model.bos_token_id = -1;
  h.only("is_decoder", false);
  h.only("add_cross_attention", false);
  if (h.string("position_embedding_type", "absolute") != "absolute")
    h.refuse("config.json: 'position_embedding_type' can only be 'absolute'");
}

// The number of token types is the number of rows in the file.
void read_token_types(Hyperparameters& h, ModelInfo& model) {
  for (const FileTensor& tensor : h.gguf()->tensor_list())
    if (tensor.name == "token_types.weight" && tensor.shape.size() == 2)
      model.decoder.token_types =
          static_cast<std::int32_t>(std::clamp<std::int64_t>(tensor.shape.front(), 0, 1 << 16));
  h.without_effect("token_type_count classifier.output_labels");
}

std::int32_t times(std::int32_t a, std::int32_t b) {
  return static_cast<std::int32_t>(
      std::min<std::int64_t>(std::int64_t{a} * b, std::numeric_limits<std::int32_t>::max()));
}

}  // namespace pagoda
