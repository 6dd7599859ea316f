// OLMoE: Llama with mixtures, and norms over all query heads and over all key heads.
#include "models/reading.h"

namespace pagoda::olmoe {

void read_olmoe(Hyperparameters& h, ModelInfo& model) {
  clip_attention(h.number("clip_qkv", 0), model.decoder);
  use_mixtures(read_experts(h, model), {}, model);
}

extern const Family family = {
    .configs = {{"OlmoeForCausalLM", "olmoe",
                 R"({"vocab_size":50304,"hidden_size":2048,"intermediate_size":2048,"num_hidden_layers":16,
                     "num_attention_heads":16,"max_position_embeddings":4096,"eos_token_id":50279,
                     "pad_token_id":1,"num_experts":64,"num_experts_per_tok":8,"norm_topk_prob":false})",
                 read_olmoe}},
    .ggufs = {{"olmoe", {.experts = {.known = true, .renormalize = false}}}},
    .shape = norm_heads_together,
    .folder_experts = ExpertPlaces{},
    .row = {.name = "OLMoE 7B-A1B", .differs = "mixtures, norms over all heads", .size = "7B-A1B"}};

}  // namespace pagoda::olmoe
