// Qwen3: Llama with an RMS norm of every query and key head before rotation.
#include "models/reading.h"

namespace pagoda {
namespace {

constexpr Defaults kAbsent = {.vocab_size = 151936,
                              .intermediate_size = 22016,
                              .num_kv_heads = 32,
                              .max_positions = 32768,
                              .norm_eps = 1e-6f,
                              .head_size = 128};

void read_qwen3(Hyperparameters& h, ModelInfo& model) { read_qwen_windows(h, 28, model); }

// The text part of a model that sees.
void read_qwen3_vl(Hyperparameters& h, ModelInfo& model) {
  Defaults absent = kAbsent;
  absent.max_positions = 128000;
  absent.rope_theta = 500000;
  read_common(h, absent, model);
  read_qwen_windows(h, 28, model);
}

}  // namespace

PAGODA_FAMILY(qwen3) = {
    .configs = {{"Qwen3ForCausalLM", "qwen3", kAbsent, read_qwen3},
                {"Qwen3VLTextForCausalLM", "qwen3_vl_text", {}, read_qwen3_vl, Reads::all}},
    .wrappers = {{"LightOnOcrForConditionalGeneration", "lighton_ocr", "qwen3"},
                 {"Qwen3VLForConditionalGeneration", "qwen3_vl", "qwen3_vl_text"}},
    .ggufs = {{"qwen3"}, {"qwen3vl"}},
    .shape = norm_heads,
    .row = {.name = "Qwen 3: 0.6B to 32B, text of Qwen3-VL",
            .differs = "norms of queries and keys",
            .size = "8B",
            .config = R"({"model_type":"qwen3","num_hidden_layers":36,"num_key_value_heads":8})"}};

}  // namespace pagoda
