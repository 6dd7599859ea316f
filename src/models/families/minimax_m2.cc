// MiniMax-M2: Llama with mixtures, norms over all query heads and over all key heads, and partial rotation.
#include "models/reading.h"

namespace pagoda::minimax_m2 {

void read_minimax_m2(Hyperparameters& h, ModelInfo& model) {
  const std::int32_t turned = h.integer("rotary_dim", 0);  // the only such field in old files
  const json::object* const rope = h.object("rope_parameters");
  const bool other =
      h.written("partial_rotary_factor") || (rope != nullptr && rope->contains("partial_rotary_factor"));
  if (turned != 0 && !other) model.decoder.ropes.front().rotary_size = turned;
  MixtureConfig mixture = read_experts(h, model);
  mixture.routing.score = RouterScore::sigmoid;
  mixture.routing.renormalize = true;
  use_mixtures(mixture, {}, model);
}

extern const Family family = {
    .configs = {{"MiniMaxM2ForCausalLM", "minimax_m2",
                 R"({"vocab_size":200064,"hidden_size":3072,"intermediate_size":1536,"num_hidden_layers":62,
                     "num_attention_heads":48,"num_key_value_heads":8,"max_position_embeddings":196608,
                     "rms_norm_eps":1e-6,"rope_theta":5000000,"bos_token_id":200034,"eos_token_id":200020,
                     "head_dim":128,"partial_rotary_factor":1,"num_local_experts":256,
                     "num_experts_per_tok":8})",
                 read_minimax_m2}},
    .ggufs = {{"minimax-m2", {.experts = {.known = true, .score = RouterScore::sigmoid}}}},
    .shape = norm_heads_together,
    .names =
        [](WeightNames& names) {
          const ExpertNames stored = {.router = "block_sparse_moe.gate",
                                      .correction = "block_sparse_moe.e_score_correction_bias",
                                      .gate = "block_sparse_moe.experts.{}.w1",
                                      .up = "block_sparse_moe.experts.{}.w3",
                                      .down = "block_sparse_moe.experts.{}.w2"};
          names.experts.insert(names.experts.begin(),
                               {stored, mlx_experts(stored, "block_sparse_moe.switch_mlp")});
        },
    .folder_experts = ExpertPlaces{.correction = "mlp.e_score_correction_bias"},
    .row = {.name = "MiniMax M2",
            .differs = "sigmoid routing with a correction, norms over all heads",
            .size = "230B-A10B"}};

}  // namespace pagoda::minimax_m2
