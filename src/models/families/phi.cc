// Phi-1, 1.5 and 2: layer norms, one for both halves, which see the same; a plain MLP of GELU; biases, of the
// head too.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

// Phi-1, 1.5 and 2.
void read_phi(Hyperparameters& h, ModelConfig& config) {
  Defaults absent = {.vocab_size = 51200,
                     .hidden_size = 2048,
                     .intermediate_size = 8192,
                     .num_layers = 24,
                     .num_heads = 32,
                     .max_positions = 2048,
                     .norm_eps = 1e-5f,
                     .rope_theta = 10000.0f,
                     .bos = 1,
                     .eos = 2,
                     .partial = 0.5f};
  absent.eps_name = "layer_norm_eps";
  absent.activation = "gelu_new";
  read_common(h, absent, config);
  config.parallel = true;
  h.only("qk_layernorm", false);
}

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::gguf) {
    names.fused_qkv = "attn_qkv";  // in older files
    return names;
  }
  names.final_norm = "model.final_layernorm";
  names.mlp_norm = "";
  names.attention_output = "self_attn.dense";
  names.up = "mlp.fc1";
  names.down = "mlp.fc2";
  return names;
}

void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {.activation = "gelu_new", .layer_norm = true, .parallel = true}, config);
}

}  // namespace

PAGODA_FAMILY(phi) = {.architecture = "phi2",
                      .configs = {{"PhiForCausalLM", "PhiModel", "phi", read_phi}},
                      .ggufs = {{"phi2", read_gguf}},
                      .describe = plain_layer_norm_description,
                      .names = names,
                      .row = {.name = "Phi 1, 1.5, 2",
                              .differs = "layer norms, both halves see the same, biases",
                              .checked = "transformers",
                              .size = "2.7B",
                              .config = R"({"model_type":"phi","hidden_size":2560,"num_hidden_layers":32})"}};

}  // namespace pagoda
