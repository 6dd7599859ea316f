// K-EXAONE: Qwen 3 with windows, RoPE only in layers with windows, and mixtures after dense layers with
// DeepSeek-V3's routing.
#include "models/reading.h"

namespace pagoda::exaone_moe {

constexpr std::string_view kAbsent =
    R"({"vocab_size":102400,"intermediate_size":16384,"num_key_value_heads":32,"bos_token_id":1,
        "eos_token_id":53,"pad_token_id":0,"sliding_window":4096,"num_experts":64,"num_experts_per_tok":8,
        "moe_intermediate_size":1024,"num_shared_experts":1,"first_k_dense_replace":1,"norm_topk_prob":true,
        "routed_scaling_factor":2.5})";

void read(Hyperparameters& h, ModelInfo& model) {
  if (h.find("layer_types") != nullptr) h.without_effect("sliding_window_pattern");  // says the same
  read_window_pattern(h, 4, model, read_window(h));
  if (read_window(h) > 0) rotate_windows_alone(model.decoder);
  read_deepseek_like(h, model);
}

extern const Family family = {
    .configs = {{"ExaoneMoeForCausalLM", "exaone_moe", kAbsent, read},
                {"ExaoneMoEForCausalLM", "exaone_moe", kAbsent, read}},
    .ggufs = {{"exaone-moe",
               {.experts = {.known = true, .score = RouterScore::sigmoid}},
               read_gguf_rotating_windows}},
    .shape = norm_heads,
    .folder_experts = ExpertPlaces{.shared = "shared_experts", .correction = "mlp.e_score_correction_bias"},
    .row = {.name = "K-EXAONE 236B-A23B",
            .differs = "norms of queries and keys, windows, RoPE in window layers only, sigmoid routing "
                       "with a correction after dense layers",
            .size = "236B",
            .config = R"({"model_type":"exaone_moe","hidden_size":6144,"num_hidden_layers":48,"head_dim":128,
                          "num_attention_heads":64,"num_key_value_heads":8,"num_experts":128,
                          "max_position_embeddings":262144,"sliding_window":128})"}};

}  // namespace pagoda::exaone_moe
