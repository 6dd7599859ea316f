#pragma once
// The single table of GGUF's names for fields of config.json.
#include <array>
#include <string_view>

namespace pagoda {

struct GgufName {
  std::string_view field, key;  // config.json's name; GGUF's name after the architecture
  bool fraction = false;        // false: an integer
};
inline constexpr auto kGgufNames = std::to_array<GgufName>({
    {"attention_multiplier", "attention.scale", true},
    {"attn_logit_softcapping", "attn_logit_softcapping", true},
    {"clip_qkv", "attention.clamp_kqv", true},
    {"embedding_multiplier", "embedding_scale", true},
    {"final_logit_softcapping", "final_logit_softcapping", true},
    {"head_dim", "attention.key_length"},
    {"hidden_size", "embedding_length"},
    {"hidden_size_per_layer_input", "embedding_length_per_layer_input"},
    {"intermediate_size", "feed_forward_length"},
    {"kv_lora_rank", "attention.kv_lora_rank"},
    {"layer_norm_eps", "attention.layer_norm_epsilon", true},
    {"llama_4_scaling_beta", "attention.temperature_scale", true},
    {"logit_scale", "logit_scale", true},
    {"logits_scaling", "logit_scale", true},
    {"max_position_embeddings", "context_length"},
    {"num_attention_heads", "attention.head_count"},
    {"num_experts", "expert_count"},
    {"num_experts_per_tok", "expert_used_count"},
    {"num_hidden_layers", "block_count"},
    {"num_key_value_heads", "attention.head_count_kv"},
    {"num_kv_shared_layers", "attention.shared_kv_layers"},
    {"num_nextn_predict_layers", "nextn_predict_layers"},
    {"q_lora_rank", "attention.q_lora_rank"},
    {"residual_multiplier", "residual_scale", true},
    {"rms_norm_eps", "attention.layer_norm_rms_epsilon", true},
    {"rope_theta", "rope.freq_base", true},
    {"sliding_window", "attention.sliding_window"},
});

}  // namespace pagoda
