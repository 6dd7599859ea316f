// Qwen3: Llama with an RMS norm of each query and key head before rotation.
#include "models/reading.h"

namespace pagoda::qwen3 {

extern const Family family = {
    .configs = {{"Qwen3ForCausalLM", "qwen3",
                 R"({"vocab_size":151936,"intermediate_size":22016,"num_key_value_heads":32,
                     "max_position_embeddings":32768,"rms_norm_eps":1e-6,"head_dim":128,"sliding_window":4096,
                     "max_window_layers":28})",
                 read_qwen_windows},
                {"Qwen3VLTextForCausalLM", "qwen3_vl_text",
                 R"({"vocab_size":151936,"intermediate_size":22016,"num_key_value_heads":32,
                     "max_position_embeddings":128000,"rms_norm_eps":1e-6,"head_dim":128,"rope_theta":500000,
                     "sliding_window":4096,"max_window_layers":28})",
                 read_qwen_windows}},
    .wrappers = {{"LightOnOcrForConditionalGeneration", "lighton_ocr", "qwen3"},
                 {"Qwen3VLForConditionalGeneration", "qwen3_vl", "qwen3_vl_text"}},
    .ggufs = {{"qwen3"}, {"qwen3vl"}},
    .shape = norm_heads,
    .row = {.name = "Qwen 3: 0.6B to 32B, text of Qwen3-VL",
            .differs = "norms of queries and keys",
            .size = "8B",
            .config = R"({"model_type":"qwen3","num_hidden_layers":36,"num_key_value_heads":8})"}};

}  // namespace pagoda::qwen3
