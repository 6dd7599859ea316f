// Youtu-LLM (Tencent): DeepSeek-V3's latent attention with dense feed-forwards.
#include "models/reading.h"

namespace pagoda::youtu {

extern const Family family = {
    .architecture = "youtu",
    .configs = {{"YoutuForCausalLM", "youtu",
                 R"({"vocab_size":128256,"hidden_size":2048,"intermediate_size":6144,"num_attention_heads":16,
                     "num_key_value_heads":16,"max_position_embeddings":131072,"rms_norm_eps":1e-6,
                     "bos_token_id":128000,"eos_token_id":128001,"tie_word_embeddings":true,
                     "rope_interleave":true,"kv_lora_rank":512,"q_lora_rank":1536,"qk_nope_head_dim":128,
                     "qk_rope_head_dim":64,"v_head_dim":128})",
                 [](Hyperparameters& h, ModelInfo& model) {
                   h.without_effect("embedding_initializer_range");
                   read_latent(h, model);
                 }}},
    .names = latent_names,
    .row = {
        .name = "Youtu-LLM 2B", .differs = "latent attention; as GGUF it is a `deepseek2`", .size = "2B"}};

}  // namespace pagoda::youtu
