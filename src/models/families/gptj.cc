// GPT-J: layer norms, plain MLPs of GELU, one norm for both halves, which see the same; adjacent pairs.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_gptj(Hyperparameters& h, ModelConfig& config) {
  read_heads(h, config, "n_embd", "n_layer", "n_head",
             {.vocab_size = 50400,
              .hidden_size = 4096,
              .num_layers = 28,
              .num_heads = 16,
              .max_positions = 2048,
              .norm_eps = 1e-5f,
              .rope_theta = 10000.0f,
              .bos = 50256,
              .eos = 50256});
  const std::int32_t inner = h.integer("n_inner", 0);
  config.intermediate_size = inner != 0 ? inner : times(4, config.hidden_size);
  config.max_positions = h.integer("n_positions", 2048);
  config.activation = h.string("activation_function", "gelu_new");
  config.rotary_size = h.integer("rotary_dim", 64);
  config.rope_interleaved_rows = config.parallel = true;
}

WeightNames gptj_names(ModelFormat) {
  return {.prefix = "transformer.",
          .other_prefixes = {""},
          .token_embedding = "transformer.wte",
          .final_norm = "transformer.ln_f",
          .head = "lm_head",
          .layer = "transformer.h.{}.",
          .attention_norm = "ln_1",
          .query = "attn.q_proj",
          .key = "attn.k_proj",
          .value = "attn.v_proj",
          .attention_output = "attn.out_proj",
          .up = "mlp.fc_in",
          .down = "mlp.fc_out"};
}

}  // namespace

PAGODA_FAMILY(gptj) = {.architecture = "gptj",
                       .configs = {{"GPTJForCausalLM", "GPTJModel", "gptj", read_gptj}},
                       .describe = plain_layer_norm_description,
                       .names = gptj_names,
                       .row = {.name = "GPT-J 6B",
                               .differs = "layer norms, both halves see the same, biases, adjacent pairs",
                               .checked = "transformers",
                               .size = "6B",
                               .config = R"({"model_type":"gptj"})"}};

}  // namespace pagoda
