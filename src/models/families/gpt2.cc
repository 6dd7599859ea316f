// GPT-2: layer norm, learned positions, one fused and biased query-key-value matrix, plain MLP. Hugging Face
// stores its matrices as Conv1D, [in, out]; GGUF as all others.
#include "models/reading.h"

namespace pagoda {

PAGODA_FAMILY(gpt2) = {.configs = {{"GPT2LMHeadModel",
                                    "gpt2",
                                    {},
                                    [](Hyperparameters& h, ModelInfo& model) {
                                      read_gpt2(h, "gelu_new", model);
                                      h.only("scale_attn_by_inverse_layer_idx", false);
                                    },
                                    Reads::all}},
                       .ggufs = {{"gpt2", {}, read_gguf_gpt2, Reads::all}},
                       .shape = gpt2_shape,
                       .names = gpt2_names,
                       .row = {.name = "GPT-2",
                               .differs = "layer norm, learned positions",
                               .size = "124M",
                               .config = R"({"model_type":"gpt2"})"}};

}  // namespace pagoda
