// GLM-4 9B: Llama with biases, RoPE on adjacent pairs in half of each head, and fused gate and up.
#include "models/reading.h"

namespace pagoda::glm {

extern const Family family = {
    .architecture = "glm",
    .configs =
        {{"GlmForCausalLM", "glm",
          R"({"vocab_size":151552,"intermediate_size":13696,"num_hidden_layers":40,"num_key_value_heads":2,
              "max_position_embeddings":131072,"rms_norm_eps":1.5625e-07,
              "eos_token_id":[151329,151336,151338],"pad_token_id":151329,"head_dim":128,
              "partial_rotary_factor":0.5,"rope_interleave":true})"}},
    .ggufs = {{"chatglm", {.interleaved_rows = true, .context_instead_of_width = 131072}}},
    .names = glm_names,
    .row = {.name = "GLM 4 9B",
            .differs = "RoPE on adjacent pairs in half of each head, fused gate and up",
            .size = "9B"}};

}  // namespace pagoda::glm
