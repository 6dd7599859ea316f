// Phi-3.5-MoE: Llama with layer norms, biases, and mixtures whose router chooses experts one after the other.
#include "models/reading.h"

namespace pagoda::phimoe {

constexpr std::string_view kAbsent =
    R"({"vocab_size":32064,"intermediate_size":6400,"num_key_value_heads":8,"max_position_embeddings":131072,
        "rms_norm_eps":1e-5,"rope_theta":1000000,"bos_token_id":1,"eos_token_id":2,"num_local_experts":16,
        "num_experts_per_tok":2})";

// The scale of cosines and sines is in the file, instead of following from the factors.
void read_phimoe(Hyperparameters& h, ModelInfo& model) {
  use_windows(h, h.integer("sliding_window", 0), {}, model);
  if (RopeConfig& to = model.decoder.ropes.front(); to.scaling == RopeScaling::longrope) {
    Hyperparameters rope(*rope_object(h), h.shared_status());
    to.attention_factor = rope.number("short_mscale", to.attention_factor);
    if (rope.number("long_mscale", to.attention_factor) != to.attention_factor)
      h.refuse("config.json: 'long_mscale' other than 'short_mscale' is not supported");
  }
  h.only("num_experts_per_tok", 2);
  MixtureConfig mixture = read_experts(h, model);
  mixture.routing.score = RouterScore::sparse_mixer;
  mixture.routing.near = 2 * h.number("router_jitter_noise", 0.01f);
  use_mixtures(mixture, {}, model);
  // In order: only for training; implied by the tensors; used by the scaling.
  h.without_effect("input_jitter_noise lm_head_bias original_max_position_embeddings");
}

// The file does not say how close to the best expert another must be.
void read_gguf(Hyperparameters& h, ModelInfo& model) {
  if (h.integer("expert_used_count", 2) != 2)
    h.refuse("GGUF option 'phimoe.expert_used_count' other than 2 is not supported");
  each_mixture(model.decoder, [](MixtureConfig& mixture) {
    mixture.routing.score = RouterScore::sparse_mixer;
    mixture.routing.renormalize = false;
    mixture.routing.near = 0.02f;
  });
}

extern const Family family = {
    .configs = {{"PhimoeForCausalLM", "phimoe", kAbsent, read_phimoe},
                {"PhiMoEForCausalLM", "phimoe", kAbsent, read_phimoe}},
    .ggufs = {{"phimoe", {.experts = {.known = true, .score = RouterScore::sparse_mixer}}, read_gguf}},
    .shape = layer_norms,
    .names =
        [](WeightNames& names) {
          names.experts = mixtral_experts();
          for (ExpertNames& form : names.experts)
            if (form.router == "mlp.gate") form.router = "mlp.router";
        },
    .row = {.name = "Phi 3.5 MoE 42B-A6.6B",
            .differs = "layer norms, biases, mixtures of two experts, chosen one after the other (sparse "
                       "mixer), longrope",
            .size = "42B"}};

}  // namespace pagoda::phimoe
