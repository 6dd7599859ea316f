// Mistral Small 4: DeepSeek-V2's latent attention with query temperature, and mixtures in all layers.
#include "models/reading.h"

namespace pagoda::mistral4 {

void read(Hyperparameters& h, ModelInfo& model) {
  if (has_plain_rope(h)) return h.fail("rope_parameters", "given");
  read_deepseek_like(h, model);
  each_mixture(model.decoder, [](MixtureConfig& mixture) { mixture.routing.group_is_best_two = true; });
  read_latent(h, model);
}

void read_gguf(Hyperparameters& h, ModelInfo& model) {
  read_gguf_deepseek(h, model);
  h.without_effect("attention.temperature_length");
  each_mixture(model.decoder, [](MixtureConfig& mixture) { mixture.routing.group_is_best_two = true; });
}

extern const Family family = {
    .configs = {{"Mistral4ForCausalLM", "mistral4",
                 R"({"vocab_size":131072,"intermediate_size":12288,"num_hidden_layers":36,
                     "max_position_embeddings":1048576,"rms_norm_eps":1e-6,"bos_token_id":1,"eos_token_id":2,
                     "pad_token_id":11,"partial_rotary_factor":0.5,"rope_interleave":true,
                     "scoring_func":"softmax","n_routed_experts":128,"num_experts_per_tok":4,
                     "moe_intermediate_size":2048,"n_shared_experts":1,"norm_topk_prob":true,
                     "routed_scaling_factor":1,"kv_lora_rank":256,"q_lora_rank":1024,"qk_nope_head_dim":64,
                     "qk_rope_head_dim":64,"v_head_dim":128})",
                 read}},
    .ggufs = {{"mistral4", {}, read_gguf, Reads::all}},
    .names = latent_names,
    .gguf_names = [](WeightNames& names) { std::swap(names.experts[0], names.experts[1]); },
    .row = {.name = "Mistral Small 4 119B-A6B (text)",
            .differs = "latent attention, YaRN, query temperature, mixtures, a shared expert",
            .size = "119B",
            .config = R"({"model_type":"mistral4",
                      "rope_parameters":{"rope_type":"yarn","factor":128,
                                         "original_max_position_embeddings":8192}})"}};

}  // namespace pagoda::mistral4
