// DeepSeek-V2, V3 and models built like them (Moonlight, Kimi-K2, GLM-4.7-Flash): latent attention, and
// mixtures after dense layers.
#include "models/reading.h"

namespace pagoda::deepseek {

void read_deepseek_v2(Hyperparameters& h, ModelInfo& model) {
  read_deepseek_like(h, model);
  h.only("norm_topk_prob", false);
  h.only("moe_layer_freq", 1);
  if (h.string("topk_method", "greedy") != "greedy")
    h.only("topk_method", "group_limited_greedy");
  else
    each_mixture(model.decoder, [](MixtureConfig& mixture) {
      mixture.routing.num_groups = mixture.routing.groups_used = 1;
    });
  read_latent(h, model);
}

constexpr std::string_view kV3 =
    R"({"vocab_size":129280,"hidden_size":7168,"intermediate_size":18432,"num_hidden_layers":61,
        "num_attention_heads":128,"num_key_value_heads":128,"max_position_embeddings":4096,
        "rms_norm_eps":1e-6,"bos_token_id":0,"eos_token_id":1,"rope_interleave":true,"n_routed_experts":256,
        "num_experts_per_tok":8,"moe_intermediate_size":2048,"n_shared_experts":1,"first_k_dense_replace":3,
        "norm_topk_prob":true,"n_group":8,"topk_group":4,"routed_scaling_factor":2.5,"kv_lora_rank":512,
        "q_lora_rank":1536,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128})";

void read_deepseek_v3(Hyperparameters& h, ModelInfo& model) {
  read_deepseek_like(h, model);
  h.only("topk_method", "noaux_tc");
  h.only("moe_layer_freq", 1);
  read_latent(h, model);
}

void read_glm4_moe_lite(Hyperparameters& h, ModelInfo& model) {
  read_deepseek_like(h, model);
  h.only("topk_method", "noaux_tc");
  read_latent(h, model);
}

extern const Family family = {
    .configs = {{"DeepseekV2ForCausalLM", "deepseek_v2",
                 R"({"vocab_size":102400,"intermediate_size":11008,"rms_norm_eps":1e-6,"bos_token_id":1,
                     "eos_token_id":2,"rope_interleave":true,"scoring_func":"softmax","n_routed_experts":64,
                     "num_experts_per_tok":6,"moe_intermediate_size":1407,"n_shared_experts":2,
                     "norm_topk_prob":false,"routed_scaling_factor":1,"kv_lora_rank":512,"q_lora_rank":1536,
                     "qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128})",
                 read_deepseek_v2},
                {"DeepseekV3ForCausalLM", "deepseek_v3", kV3, read_deepseek_v3},
                {"DeepseekV3ForCausalLM", "kimi_k2", kV3, read_deepseek_v3},
                {"Glm4MoeLiteForCausalLM", "glm4_moe_lite",
                 R"({"vocab_size":154880,"hidden_size":2048,"intermediate_size":10240,"num_hidden_layers":47,
                     "num_attention_heads":20,"num_key_value_heads":20,"max_position_embeddings":202752,
                     "bos_token_id":0,"eos_token_id":1,"rope_interleave":true,"n_routed_experts":64,
                     "num_experts_per_tok":4,"moe_intermediate_size":1536,"n_shared_experts":1,
                     "first_k_dense_replace":1,"norm_topk_prob":true,"routed_scaling_factor":1.8,
                     "kv_lora_rank":512,"q_lora_rank":768,"qk_nope_head_dim":192,"qk_rope_head_dim":64,
                     "v_head_dim":256})",
                 read_glm4_moe_lite}},
    .wrappers = {{"Kimi_K25ForConditionalGeneration", "kimi_k25", "deepseek_v3"}},
    .ggufs = {{"deepseek2", {}, read_gguf_deepseek, Reads::all}},
    .names = latent_names,
    .row = {.name = "DeepSeek V2, V2-Lite, Coder-V2, V3, R1, Moonlight, Kimi K2, text of K2.5, GLM-4.7-Flash",
            .differs = "latent attention; mixtures after dense layers, shared experts, routing by softmax, "
                       "in groups or not; V3 and later: GLM 4.5's routing",
            .size = "V2-Lite",
            .config = R"({"model_type":"deepseek_v2","hidden_size":2048,"num_hidden_layers":27,
                          "num_attention_heads":16,"q_lora_rank":null,"n_routed_experts":64,
                          "num_experts_per_tok":6,"n_group":1,"topk_group":1,"topk_method":"greedy"})"}};

}  // namespace pagoda::deepseek
