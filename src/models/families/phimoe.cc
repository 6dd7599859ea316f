// Phi-3.5-MoE: Llama with layer norms, biases, and mixtures whose router chooses one expert after the other.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

// A scale of cosines and sines is in the file instead of following from the factors.
void read_phimoe(Hyperparameters& h, ModelConfig& config) {
  read_common(h,
              {.vocab_size = 32064,
               .hidden_size = 4096,
               .intermediate_size = 6400,
               .num_layers = 32,
               .num_heads = 32,
               .num_kv_heads = 8,
               .max_positions = 131072,
               .norm_eps = 1e-5f,
               .rope_theta = 1000000.0f,
               .bos = 1,
               .eos = 2},
              config);
  config.sliding_window = h.integer("sliding_window", 0);
  if (config.rope_scaling == RopeScaling::longrope) {
    const json::object* scaling = h.object("rope_scaling");
    if (scaling == nullptr || scaling->empty()) scaling = h.object("rope_parameters");
    Hyperparameters rope(*scaling, h.shared_status());
    config.rope_attention_factor = rope.number("short_mscale", config.rope_attention_factor);
    if (rope.number("long_mscale", config.rope_attention_factor) != config.rope_attention_factor)
      h.refuse("config.json: 'long_mscale' other than 'short_mscale' is not supported");
  }
  ExpertsConfig& experts = config.experts;
  experts.count = num_experts(h, 16);
  experts.per_token = 2;
  h.only("num_experts_per_tok", 2);
  experts.intermediate_size = config.intermediate_size;
  experts.score = ExpertScore::sparse_mixer;
  experts.near = 2 * h.number("router_jitter_noise", 0.01f);
  for (const std::string_view other :
       {"input_jitter_noise", "lm_head_bias", "original_max_position_embeddings"})
    h.find(other);  // training; as the tensors say; beside the scaling
}

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::gguf) return names;
  names.experts = mixtral_experts();
  for (ExpertNames& form : names.experts)
    if (form.router == "mlp.gate") form.router = "mlp.router";
  return names;
}

// The file does not say how near the best an expert must be to count.
void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {.experts = {.known = true, .score = ExpertScore::sparse_mixer}}, config);
  if (config.experts.per_token != 2)
    h.refuse("GGUF option 'phimoe.expert_used_count' other than 2 is not supported");
  config.experts.score = ExpertScore::sparse_mixer;
  config.experts.renormalize = false;
  config.experts.near = 0.02f;
}

}  // namespace

PAGODA_FAMILY(phimoe) = {.architecture = "phimoe",
                         .configs = {{"PhimoeForCausalLM", "PhimoeModel", "phimoe", read_phimoe},
                                     {"PhiMoEForCausalLM", "PhiMoEModel", "phimoe", read_phimoe}},
                         .ggufs = {{"phimoe", read_gguf}},
                         .describe = layer_norm_description,
                         .names = names,
                         .row = {.name = "Phi 3.5 MoE 42B-A6.6B",
                                 .differs = "layer norms, biases, mixtures of two experts, chosen one after "
                                            "the other (sparse mixer), longrope",
                                 .checked = "transformers",
                                 .size = "42B",
                                 .config = R"({"model_type":"phimoe"})"}};

}  // namespace pagoda
