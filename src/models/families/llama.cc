// Llama: RMS norm, rotary positions, grouped-query attention, gated SiLU.
#include "models/reading.h"

namespace pagoda::llama {

extern const Family family = {
    .configs = {{"LlamaForCausalLM", "llama",
                 R"({"intermediate_size":11008,"rms_norm_eps":1e-6,"bos_token_id":1,"eos_token_id":2})",
                 [](Hyperparameters& h, ModelInfo&) { h.only("sliding_window", nullptr); }}},
    .wrappers = {{"DeepseekVLForConditionalGeneration", "deepseek_vl", "llama"},
                 {"Idefics3ForConditionalGeneration", "idefics3", "llama"},
                 {"JanusForConditionalGeneration", "janus", "llama"},
                 {"LlavaForConditionalGeneration", "llava", "llama"},
                 {"LlavaNextForConditionalGeneration", "llava_next", "llama"},
                 {"LlavaNextVideoForConditionalGeneration", "llava_next_video", "llama"},
                 {"PerceptionLMForConditionalGeneration", "perception_lm", "llama"},
                 {"SmolVLMForConditionalGeneration", "smolvlm", "llama"},
                 {"VideoLlavaForConditionalGeneration", "video_llava", "llama"},
                 {"VipLlavaForConditionalGeneration", "vipllava", "llama"},
                 {"VoxtralForConditionalGeneration", "voxtral", "llama"}},
    .ggufs = {{"llama", {.interleaved_rows = true, .experts = {.known = true}}}},
    .row = {.name = "Llama 2, 3, 3.1, 3.2, TinyLlama, SmolLM2, ...",
            .differs = "–",
            .checked = "transformers, the real SmolLM2 135M",
            .size = "Llama 3.1 8B",
            .config = R"({"model_type":"llama","num_key_value_heads":8,"max_position_embeddings":131072})"}};

}  // namespace pagoda::llama
