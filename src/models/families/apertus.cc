// Apertus: Llama with norms of queries and keys, and xIELU between the two matrices of a plain MLP.
#include "models/reading.h"

namespace pagoda::apertus {

void read_apertus(Hyperparameters& h, ModelInfo& model) {
  if (h.string("hidden_act", "xielu") != "xielu")
    return h.refuse("config.json: 'hidden_act' of Apertus can only be 'xielu'");
  read_layers(h, model, {.activation = "silu"});  // not used by any matrix
  read_rope(h, model);
  if (!has_plain_rope(h)) return;
  RopeConfig& rope = model.decoder.ropes.front();
  rope.scaling = RopeScaling::llama3;
  rope.factor = 8;
  rope.original_positions = 8192;
}

void shape(DecoderConfig& decoder) {
  norm_heads(decoder);
  for (LayerConfig& layer : decoder.layers)
    if (const DenseFeedForwardConfig* const dense = layer.dense())
      layer.feed_forward = XieluConfig{.intermediate_size = dense->intermediate_size};
}

void names(WeightNames& names) {
  names.gate = "";
  names.attention_norm = "attention_layernorm";
  names.mlp_norm = "feedforward_layernorm";
  names.curve = "mlp.act_fn";
}

// Each parameter of the activation is a number per layer, or one for all; its key has no architecture prefix.
void read_gguf(Hyperparameters& h, ModelInfo& model) {
  const auto count = static_cast<std::size_t>(model.decoder.num_layers());
  const auto numbers = [&](std::string_view name) {
    std::vector<float> out;
    if (const GgufArray* array = h.gguf()->array(name))
      for (const double each : array->floats) out.push_back(static_cast<float>(each));
    else if (const std::optional<double> one = h.gguf()->number(name))
      out.assign(count, static_cast<float>(*one));
    if (out.size() != count)
      h.fail(corrupt_data(concat("GGUF metadata '", name, "' is not a number for each layer")));
    out.resize(count);
    return out;
  };
  const auto alpha_p = numbers("xielu.alpha_p"), alpha_n = numbers("xielu.alpha_n"),
             beta = numbers("xielu.beta"), eps = numbers("xielu.eps");
  for (std::size_t index = 0; index < count; ++index) {
    LayerConfig& layer = model.decoder.layers[index];
    layer.feed_forward = XieluConfig{.intermediate_size = layer.dense()->intermediate_size,
                                     .alpha_p = alpha_p[index],
                                     .alpha_n = alpha_n[index],
                                     .beta = beta[index],
                                     .eps = eps[index]};
  }
}

extern const Family family = {
    .configs = {{"ApertusForCausalLM", "apertus",
                 R"({"vocab_size":131072,"intermediate_size":14336,"max_position_embeddings":65536,
                     "rope_theta":12000000,"bos_token_id":1,"eos_token_id":2,"pad_token_id":3})",
                 read_apertus, Reads::all}},
    .ggufs = {{"apertus", {}, read_gguf}},
    .shape = shape,
    .names = names,
    .row = {.name = "Apertus 8B, 70B",
            .differs = "norms of queries and keys, plain MLP of xIELU",
            .size = "8B",
            .config = R"({"model_type":"apertus","num_key_value_heads":8})"}};

}  // namespace pagoda::apertus
