// Llama: RMS norm, rotary positions, grouped-query attention, gated SiLU.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_llama(Hyperparameters& h, ModelConfig& config) {
  read_common(h,
              {.vocab_size = 32000,
               .hidden_size = 4096,
               .intermediate_size = 11008,
               .num_layers = 32,
               .num_heads = 32,
               .max_positions = 2048,
               .norm_eps = 1e-6f,
               .rope_theta = 10000.0f,
               .bos = 1,
               .eos = 2},
              config);
  h.only("sliding_window", nullptr);
}

void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {.interleaved_rows = true, .experts = {.known = true}}, config);
  read_layers_with_routers(h, config);
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
    .describe = common_description,
    .names = llama_names,
    .row = {.name = "Llama 2, 3, 3.1, 3.2, TinyLlama, SmolLM2, ...",
            .differs = "–",
            .checked = "transformers, the real SmolLM2 135M",
            .size = "Llama 3.1 8B",
            .config = R"({"model_type":"llama","num_key_value_heads":8,"max_position_embeddings":131072})"}};

}  // namespace pagoda
