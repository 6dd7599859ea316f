// GLM-4-0414: GLM-4 9B with norms on both sides of each half.
#include "models/reading.h"

namespace pagoda {
namespace {

WeightNames glm4_names(ModelFormat format) {
  WeightNames names = glm_names(format);
  const bool gguf = format == ModelFormat::gguf;
  names.attention_branch_norm = gguf ? "post_attention_norm" : "post_self_attn_layernorm";
  names.mlp_branch_norm = gguf ? "post_ffw_norm" : "post_mlp_layernorm";
  return names;
}

// Converters lay out the rotated rows of models that see by halves, as llama.cpp's rotation in sections wants
// them.
void read_gguf(Hyperparameters& h, ModelInfo& model) {
  const GgufArray* const sections = h.gguf()->array("glm4.rope.dimension_sections");
  if (sections != nullptr && sections->integers.size() > 1 && sections->integers[1] > 0)
    model.decoder.interleaved_rows = false;
}

}  // namespace

PAGODA_FAMILY(glm4) = {.configs = {{"Glm4ForCausalLM", "glm4", {}, read_glm, Reads::all},
                                   {"Glm4vTextModel",
                                    "glm4v_text",
                                    {.vocab_size = 151552,
                                     .intermediate_size = 13696,
                                     .num_layers = 40,
                                     .num_kv_heads = 2,
                                     .max_positions = 32768,
                                     .partial = 1,
                                     .interleaved_rows = true}}},
                       .wrappers = {{"Glm46VForConditionalGeneration", "glm46v", "glm4v_text"},
                                    {"Glm4vForConditionalGeneration", "glm4v", "glm4v_text"}},
                       .ggufs = {{"glm4", {.interleaved_rows = true}, read_gguf}},
                       .shape = norm_branches,
                       .names = glm4_names,
                       .row = {.name = "GLM 4-0414: 9B, 32B, text of 4.1V and 4.6V-Flash",
                               .differs = "GLM 4 9B with norms on both sides of each half",
                               .size = "9B",
                               .config = R"({"model_type":"glm4"})"}};

}  // namespace pagoda
