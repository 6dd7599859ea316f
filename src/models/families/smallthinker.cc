// SmallThinker: mixtures with gated ReLU in all layers, whose router reads the layer's input; if there are
// windows, RoPE only in layers with windows.
#include "models/reading.h"

namespace pagoda::smallthinker {

void route_early(DecoderConfig& decoder) {
  each_mixture(decoder, [](MixtureConfig& mixture) { mixture.routes_early = true; });
}

void read(Hyperparameters& h, ModelInfo& model) {
  read_layers(h, model, {.inner = 0, .activation = "relu"});  // no layer has a dense feed-forward
  read_rope(h, model);
  const std::int32_t layers = model.decoder.num_layers();
  if (h.find("rope_layout") != nullptr) rotate_layers(h, h.flags("rope_layout", layers), model.decoder);
  if (h.find("sliding_window_layout") != nullptr)
    use_windows(h, h.integer("sliding_window_size", 4096), h.flags("sliding_window_layout", layers), model);
  h.without_effect("sliding_window_size sliding_window sliding_window_pattern model_name");
  MixtureConfig mixture;
  mixture.routing.num_experts = h.integer("moe_num_primary_experts", 32);
  mixture.routing.per_token = h.integer("moe_num_active_primary_experts", 4);
  mixture.expert.intermediate_size = h.integer("moe_ffn_hidden_size", 768);
  const bool softmax = h.boolean("moe_primary_router_apply_softmax", false);
  mixture.routing.score = softmax ? RouterScore::softmax_of_chosen : RouterScore::sigmoid;
  mixture.routing.renormalize = true;
  h.only("norm_topk_prob", true);
  use_mixtures(mixture, {}, model);
}

void read_gguf(Hyperparameters& h, ModelInfo& model) {
  if (model.decoder.layers.front().attention()->sliding_window == 0) return;
  read_gguf_window_pattern(h, 4, model, SeesAll::first);
  rotate_windows_alone(model.decoder);
}

extern const Family family = {
    .configs = {{"SmallThinkerForCausalLM", "smallthinker",
                 R"({"vocab_size":151936,"hidden_size":1536,"num_attention_heads":12,"num_key_value_heads":2,
                     "max_position_embeddings":131072,"rms_norm_eps":1e-6,"rope_theta":1000000,
                     "bos_token_id":151643,"eos_token_id":[151643,151645],"tie_word_embeddings":true,
                     "head_dim":128})",
                 read, Reads::all}},
    .ggufs = {{"smallthinker",
               {.activation = "relu", .experts = {.known = true, .score = RouterScore::sigmoid}},
               read_gguf}},
    .shape = route_early,
    .names =
        [](WeightNames& names) {
          names.experts = {{.router = "block_sparse_moe.primary_router",
                            .gate = "block_sparse_moe.experts.{}.gate",
                            .up = "block_sparse_moe.experts.{}.up",
                            .down = "block_sparse_moe.experts.{}.down"}};
        },
    .row = {.name = "SmallThinker: 4B-A0.6B, 21B-A3B",
            .differs = "mixtures of gated ReLU, whose router reads the layer's input; 21B: windows with RoPE "
                       "in these layers alone",
            .checked = "transformers' SmolLM3 with these mixtures in its place",
            .size = "4B-A0.6B"}};

}  // namespace pagoda::smallthinker
