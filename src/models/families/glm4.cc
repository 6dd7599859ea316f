// GLM-4-0414: GLM-4 9B with norms before and after each sublayer.
#include "models/reading.h"

namespace pagoda::glm4 {

void glm4_names(WeightNames& names) {
  glm_names(names);
  names.attention_branch_norm = "post_self_attn_layernorm";
  names.mlp_branch_norm = "post_mlp_layernorm";
}

// For multimodal models, converters order the rotated rows by halves, as llama.cpp's sectioned rotation
// expects.
void read_gguf(Hyperparameters& h, ModelInfo& model) {
  const GgufArray* const sections = h.gguf()->array("glm4.rope.dimension_sections");
  if (sections != nullptr && sections->integers.size() > 1 && sections->integers[1] > 0)
    model.decoder.interleaved_rows = false;
}

extern const Family family = {
    .configs =
        {{"Glm4ForCausalLM", "glm4",
          R"({"vocab_size":151552,"intermediate_size":13696,"num_hidden_layers":40,"num_key_value_heads":2,
              "max_position_embeddings":131072,"rms_norm_eps":1.5625e-07,
              "eos_token_id":[151329,151336,151338],"pad_token_id":151329,"head_dim":128,
              "partial_rotary_factor":0.5,"rope_interleave":true})"},
         {"Glm4vTextModel", "glm4v_text",
          R"({"vocab_size":151552,"intermediate_size":13696,"num_hidden_layers":40,"num_key_value_heads":2,
              "max_position_embeddings":32768,"partial_rotary_factor":1,"rope_interleave":true})"}},
    .wrappers = {{"Glm46VForConditionalGeneration", "glm46v", "glm4v_text"},
                 {"Glm4vForConditionalGeneration", "glm4v", "glm4v_text"}},
    .ggufs = {{"glm4", {.interleaved_rows = true}, read_gguf}},
    .shape = norm_branches,
    .names = glm4_names,
    .row = {.name = "GLM 4-0414: 9B, 32B, text of 4.1V and 4.6V-Flash",
            .differs = "GLM 4 9B with norms before and after each sublayer",
            .size = "9B"}};

}  // namespace pagoda::glm4
