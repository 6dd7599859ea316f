// StableLM 2: Llama with layer norms, of which a quarter of each head rotates.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_stablelm(Hyperparameters& h, ModelInfo& model) {
  read_common(h,
              {.vocab_size = 50304,
               .hidden_size = 2560,
               .intermediate_size = 6912,
               .max_positions = 4096,
               .bos = 0,
               .eos = 0,
               .partial = 0.25f,
               .eps_name = "layer_norm_eps"},
              model);
  if (h.boolean("use_parallel_residual", false)) set_parallel(model.decoder);
  if (h.boolean("qk_layernorm", false)) norm_each_head(model.decoder);
}

WeightNames stablelm_names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::gguf) return names;
  names.query_norm = "self_attn.q_layernorm.norms.{}";
  names.key_norm = "self_attn.k_layernorm.norms.{}";
  return names;
}

void read_gguf(Hyperparameters& h, ModelInfo& model) {
  read_gguf_common(h, {.layer_norm = true, .may_be_parallel = true}, model);
  if (has_query_norm(h)) norm_each_head(model.decoder);
}

}  // namespace

PAGODA_FAMILY(stablelm) = {
    .architecture = "stablelm",
    .configs = {{"StableLmForCausalLM", "StableLmModel", "stablelm", read_stablelm}},
    .ggufs = {{"stablelm", read_gguf}},
    .shape = layer_norms,
    .names = stablelm_names,
    .row = {.name = "StableLM 2: 1.6B, 12B",
            .differs = "layer norms, a quarter of each head rotates; 12B: both halves see the same, a norm "
                       "of every head's own",
            .checked = "transformers",
            .size = "1.6B",
            .config = R"({"model_type":"stablelm","hidden_size":2048,"num_hidden_layers":24})"}};

}  // namespace pagoda
