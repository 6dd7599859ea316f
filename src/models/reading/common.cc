// Fields that most families have under the same names.
#include <algorithm>
#include <cmath>
#include <limits>

#include "models/reading.h"

namespace pagoda {
namespace {

// Special tokens, and whether the head is the embedding.
void read_tokens(Hyperparameters& h, const Defaults& absent, ModelInfo& model) {
  model.decoder.tied_head = h.boolean("tie_word_embeddings", absent.tied);
  model.bos_token_id = h.written("bos_token_id") ? h.integer("bos_token_id", -1) : absent.bos;
  model.pad_token_id = absent.pad;
  if (absent.eos >= 0) model.eos_token_ids = {absent.eos};
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

void read_layers(Hyperparameters& h, const Defaults& absent, ModelInfo& model) {
  DecoderConfig& decoder = model.decoder;
  const auto integer = [&](std::string_view name, std::int32_t otherwise) {
    return name.empty() ? otherwise : h.integer(name, otherwise);
  };
  decoder.vocab_size = h.integer("vocab_size", absent.vocab_size);
  decoder.hidden_size = decoder.embedding_size = h.integer("hidden_size", absent.hidden_size);
  decoder.max_positions = h.integer("max_position_embeddings", absent.max_positions);
  const std::int32_t heads = h.integer("num_attention_heads", absent.num_heads);
  const bool given = h.written("num_key_value_heads") || absent.num_kv_heads == 0;
  const bool fixed_head = absent.head_size > 0 && !h.written("head_dim");
  const std::string activation = absent.activation_name.empty()
                                     ? std::string(absent.activation)
                                     : h.string(absent.activation_name, absent.activation);
  h.without_effect("hidden_act attention_bias");  // in another field; as the tensors say
  make_layers(
      h, integer(absent.layers_name, absent.num_layers),
      {.num_heads = heads,
       .num_kv_heads = h.integer("num_key_value_heads", given ? heads : absent.num_kv_heads),
       .head_size = h.integer("head_dim", fixed_head ? absent.head_size : divide(decoder.hidden_size, heads)),
       .intermediate_size = integer(absent.inner_name, absent.intermediate_size),
       .norm_eps = h.number(absent.eps_name, absent.norm_eps),
       .activation = activation},
      model);
  decoder.interleaved_rows = absent.interleaved_rows;
  read_tokens(h, absent, model);
}

void read_common(Hyperparameters& h, const Defaults& absent, ModelInfo& model) {
  read_layers(h, absent, model);
  if (absent.local_theta > 0)
    read_rope_by_layer(h, model, absent.rope_theta, h.number("rope_theta", absent.local_theta),
                       absent.partial);
  else
    read_rope(h, model, absent.rope_theta, absent.partial);
}

void read_sizes(Hyperparameters& h, const SizeNames& names, const Defaults& absent, ModelInfo& model) {
  DecoderConfig& decoder = model.decoder;
  decoder.vocab_size = h.integer("vocab_size", absent.vocab_size);
  decoder.hidden_size = decoder.embedding_size = h.integer(names.hidden, absent.hidden_size);
  decoder.max_positions = h.integer(names.positions, absent.max_positions);
  const std::int32_t heads = h.integer(names.heads, absent.num_heads);
  const std::int32_t inner = names.inner.empty() ? 0 : h.integer(names.inner, absent.intermediate_size);
  const std::string activation = names.activation.empty() ? std::string(absent.activation)
                                                          : h.string(names.activation, absent.activation);
  make_layers(
      h, h.integer(names.layers, absent.num_layers),
      {.num_heads = heads,
       .num_kv_heads = heads,
       .head_size = divide(decoder.hidden_size, heads),
       .intermediate_size = inner != 0 ? inner : times(4, decoder.hidden_size),
       .norm_eps = absent.eps_name.empty() ? absent.norm_eps : h.number(absent.eps_name, absent.norm_eps),
       .activation = activation},
      model);
  if (heads > 0 && decoder.hidden_size % heads != 0)
    h.corrupt("config.json: the hidden size is not a multiple of the number of heads");
  read_tokens(h, absent, model);
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
  // Files of Granite 4 whose layers all attend keep the sizes of states that no layer has.
  h.without_effect(
      "ssm.conv_kernel ssm.time_step_rank ssm.group_count ssm.state_size ssm.inner_size "
      "expert_shared_feed_forward_length");
}

void read_granite(Hyperparameters& h, ModelInfo& model) {
  read_common(h, {.intermediate_size = 11008, .norm_eps = 1e-6f, .bos = 1, .eos = 2}, model);
  read_granite_scales(h, model);
}

void read_granite_moe(Hyperparameters& h, std::int32_t shared_size, ModelInfo& model) {
  read_granite(h, model);
  MixtureConfig mixture = read_experts(h, {.count = 8, .per_token = 2}, model);
  mixture.routing.score = RouterScore::softmax_of_chosen;
  mixture.shared_intermediate_size = h.integer("shared_intermediate_size", shared_size);
  // Every layer has the expert for all tokens; without others it is the layer's feed-forward.
  if (mixture.routing.num_experts == 0 && shared_size > 0)
    set_intermediate_size(mixture.shared_intermediate_size, model);
  use_mixtures(mixture, {}, model);
}

// GLM-4 9B and, with norms on both sides of each half, GLM-4-0414.
void read_glm(Hyperparameters& h, ModelInfo& model) {
  read_common(h,
              {.vocab_size = 151552,
               .intermediate_size = 13696,
               .num_layers = 40,
               .num_kv_heads = 2,
               .max_positions = 131072,
               .norm_eps = 1.5625e-07f,
               .pad = 151329,
               .head_size = 128,
               .partial = 0.5f,
               .interleaved_rows = true},
              model);
  model.eos_token_ids = {151329, 151336, 151338};
}

// Fields that all of them have.
void read_cohere_like(Hyperparameters& h, const Defaults& absent, ModelInfo& model) {
  read_common(h, absent, model);
  model.decoder.logit_scale = h.number("logit_scale", 0.0625f);
  model.decoder.interleaved_rows = true;
  set_parallel(model.decoder);
}

bool has_query_norm(const Hyperparameters& h) { return h.has_tensor("blk.0.attn_q_norm.weight"); }

void read_gpt2(Hyperparameters& h, std::string_view activation, ModelInfo& model) {
  read_sizes(h, kGpt2Sizes,
             {.vocab_size = 50257,
              .hidden_size = 768,
              .num_layers = 12,
              .num_heads = 12,
              .max_positions = 1024,
              .bos = 50256,
              .eos = 50256,
              .tied = true,
              .eps_name = "layer_norm_epsilon",
              .activation = activation},
             model);
  h.only("scale_attn_weights", true);
  h.only("add_cross_attention", false);
}

void read_gguf_gpt2(Hyperparameters& h, ModelInfo& model) {
  read_gguf_common(h, {.activation = "gelu_new", .layer_norm = true, .rotates = false}, model);
}

void read_bert_like(Hyperparameters& h, std::int32_t vocab_size, std::int32_t pad, ModelInfo& model) {
  read_sizes(h,
             {.hidden = "hidden_size",
              .layers = "num_hidden_layers",
              .heads = "num_attention_heads",
              .positions = "max_position_embeddings",
              .inner = "intermediate_size",
              .activation = "hidden_act"},
             {.vocab_size = vocab_size,
              .hidden_size = 768,
              .intermediate_size = 3072,
              .num_layers = 12,
              .num_heads = 12,
              .max_positions = 512,
              .norm_eps = 1e-12f,
              .eps_name = "layer_norm_eps",
              .activation = "gelu"},
             model);
  read_bert_options(h, pad, model);
}

void read_bert_options(Hyperparameters& h, std::int32_t pad, ModelInfo& model) {
  see_both_sides(model.decoder);
  model.decoder.token_types = std::max(h.integer("type_vocab_size", 2), 0);
  model.decoder.tied_head = false;
  model.bos_token_id = -1;
  model.pad_token_id = h.written("pad_token_id") ? h.integer("pad_token_id", -1) : pad;
  h.only("is_decoder", false);
  h.only("add_cross_attention", false);
  if (h.string("position_embedding_type", "absolute") != "absolute")
    h.refuse("config.json: 'position_embedding_type' can only be 'absolute'");
}

// The file has one row for each type of token.
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
