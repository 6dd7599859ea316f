// Qwen2: Llama with biases on query, key and value, used wherever the file has them.
#include "models/reading.h"

namespace pagoda {
namespace {

constexpr Defaults kAbsent = {.vocab_size = 151936,
                              .intermediate_size = 22016,
                              .num_kv_heads = 32,
                              .max_positions = 32768,
                              .norm_eps = 1e-6f};

constexpr Defaults kAbsentVl = {.vocab_size = 152064,
                                .hidden_size = 8192,
                                .intermediate_size = 29568,
                                .num_layers = 80,
                                .num_heads = 64,
                                .num_kv_heads = 8,
                                .max_positions = 32768,
                                .rope_theta = 1000000.0f,
                                .bos = 151643,
                                .eos = 151645};

void read_qwen2(Hyperparameters& h, ModelInfo& model) { read_qwen_windows(h, 28, model); }

// Qwen2-VL and Qwen2.5-VL. Text has one position for all of a token's three.
void read_qwen2_vl(Hyperparameters& h, ModelInfo& model) { read_qwen_windows(h, 80, model); }

}  // namespace

PAGODA_FAMILY(qwen2) = {.configs = {{"Qwen2ForCausalLM", "qwen2", kAbsent, read_qwen2},
                                    {"Qwen2VLTextModel", "qwen2_vl_text", kAbsentVl, read_qwen2_vl},
                                    {"Qwen2_5_VLTextModel", "qwen2_5_vl_text", kAbsentVl, read_qwen2_vl}},
                        .wrappers = {{"FastVlmForConditionalGeneration", "fast_vlm", "qwen2"},
                                     {"GotOcr2ForConditionalGeneration", "got_ocr2", "qwen2"},
                                     {"InternVLChatModel", "internvl_chat", "qwen2"},
                                     {"InternVLForConditionalGeneration", "internvl", "qwen2"},
                                     {"LlavaOnevisionForConditionalGeneration", "llava_onevision", "qwen2"},
                                     {"Ovis2ForConditionalGeneration", "ovis2", "qwen2"},
                                     {"Qwen2AudioForConditionalGeneration", "qwen2_audio", "qwen2"},
                                     {"Qwen2VLForConditionalGeneration", "qwen2_vl", "qwen2_vl_text"},
                                     {"Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl", "qwen2_5_vl_text"},
                                     {"VideoLlama3ForConditionalGeneration", "video_llama_3", "qwen2"}},
                        .ggufs = {{"qwen2"}, {"qwen2vl"}},
                        .row = {.name = "Qwen 2, 2.5: 0.5B to 72B, text of Qwen2-VL and Qwen2.5-VL",
                                .differs = "biases",
                                .size = "7B",
                                .config = R"({"model_type":"qwen2","hidden_size":3584,"num_hidden_layers":28,
                       "num_attention_heads":28,"num_key_value_heads":4})"}};

}  // namespace pagoda
