// FlexOlmo: OLMo 2 with OLMoE's mixtures.
#include "models/reading.h"

namespace pagoda::flex_olmo {

void read_flex_olmo(Hyperparameters& h, ModelInfo& model) { use_mixtures(read_experts(h, model), {}, model); }

void flex_olmo_shape(DecoderConfig& decoder) {
  norm_branches_alone(decoder);
  norm_heads_together(decoder);
}

extern const Family family = {
    .architecture = "flex_olmo",
    .configs = {{"FlexOlmoForCausalLM", "flex_olmo",
                 R"({"vocab_size":100352,"intermediate_size":11008,"max_position_embeddings":4096,
                     "rms_norm_eps":1e-6,"rope_theta":500000,"eos_token_id":100257,"pad_token_id":100277,
                     "num_experts":7,"num_experts_per_tok":5,"norm_topk_prob":false})",
                 read_flex_olmo}},
    .shape = flex_olmo_shape,
    .names = post_norm_names,
    .folder_experts = ExpertPlaces{},
    .row = {.name = "FlexOlmo 7x7B",
            .differs = "norms after each sublayer and over all heads, mixtures",
            .size = "7x7B",
            .config = R"({"model_type":"flex_olmo"})"}};

}  // namespace pagoda::flex_olmo
