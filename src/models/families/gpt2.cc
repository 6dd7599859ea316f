// GPT-2: layer norm, learned positions, one fused and biased query-key-value matrix, plain MLP. Hugging Face
// stores its matrices as Conv1D, [in, out]; GGUF as all others.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_gpt2(Hyperparameters& h, ModelInfo& model) {
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
              .activation = "gelu_new"},
             model);
  h.only("scale_attn_weights", true);
  h.only("scale_attn_by_inverse_layer_idx", false);
  h.only("add_cross_attention", false);
}

void read_gguf(Hyperparameters& h, ModelInfo& model) {
  read_gguf_common(h, {.activation = "gelu_new", .layer_norm = true, .rotates = false}, model);
}

}  // namespace

PAGODA_FAMILY(gpt2) = {.architecture = "gpt2",
                       .configs = {{"GPT2LMHeadModel", "GPT2Model", "gpt2", read_gpt2}},
                       .ggufs = {{"gpt2", read_gguf}},
                       .shape = gpt2_shape,
                       .names = gpt2_names,
                       .row = {.name = "GPT-2",
                               .differs = "layer norm, learned positions",
                               .checked = "transformers",
                               .size = "124M",
                               .config = R"({"model_type":"gpt2"})"}};

}  // namespace pagoda
