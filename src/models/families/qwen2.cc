// Qwen2: Llama with biases on query, key and value, used wherever the file has them.
#include "models/reading.h"

namespace pagoda::qwen2 {

constexpr std::string_view kAbsent =
    R"({"vocab_size":151936,"intermediate_size":22016,"num_key_value_heads":32,
        "max_position_embeddings":32768,"rms_norm_eps":1e-6,"sliding_window":4096,"max_window_layers":28})";

constexpr std::string_view kAbsentVl =
    R"({"vocab_size":152064,"hidden_size":8192,"intermediate_size":29568,"num_hidden_layers":80,
        "num_attention_heads":64,"num_key_value_heads":8,"max_position_embeddings":32768,"rope_theta":1000000,
        "bos_token_id":151643,"eos_token_id":151645,"sliding_window":4096,"max_window_layers":80})";

extern const Family family = {
    .configs = {{"Qwen2ForCausalLM", "qwen2", kAbsent, read_qwen_windows},
                {"Qwen2VLTextModel", "qwen2_vl_text", kAbsentVl, read_qwen_windows},
                {"Qwen2_5_VLTextModel", "qwen2_5_vl_text", kAbsentVl, read_qwen_windows}},
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

}  // namespace pagoda::qwen2
