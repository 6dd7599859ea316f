// Llama: RMS norm, rotary positions, grouped-query attention, gated SiLU.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_llama(Hyperparameters& h, ModelInfo& model) {
  read_common(h, {.intermediate_size = 11008, .norm_eps = 1e-6f, .bos = 1, .eos = 2}, model);
  h.only("sliding_window", nullptr);
}

void read_gguf(Hyperparameters& h, ModelInfo& model) {
  read_gguf_common(h, {.interleaved_rows = true, .experts = {.known = true}}, model);
}

}  // namespace

PAGODA_FAMILY(llama) = {
    .architecture = "llama",
    .configs = {{"LlamaForCausalLM", "LlamaModel", "llama", read_llama}},
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
    .ggufs = {{"llama", read_gguf}},
    .names = llama_names,
    .row = {.name = "Llama 2, 3, 3.1, 3.2, TinyLlama, SmolLM2, ...",
            .differs = "–",
            .checked = "transformers, the real SmolLM2 135M",
            .size = "Llama 3.1 8B",
            .config = R"({"model_type":"llama","num_key_value_heads":8,"max_position_embeddings":131072})"}};

}  // namespace pagoda
