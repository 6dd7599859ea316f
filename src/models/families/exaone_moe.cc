// K-EXAONE: Qwen 3 with windows, which alone rotate, and mixtures behind dense layers, chosen as
// DeepSeek-V3's.
#include "models/reading.h"

namespace pagoda {
namespace {

constexpr Defaults kAbsent = {
    .vocab_size = 102400, .intermediate_size = 16384, .num_kv_heads = 32, .bos = 1, .eos = 53, .pad = 0};

void read(Hyperparameters& h, ModelInfo& model) {
  const std::int32_t window = read_window(h, 4096);
  if (h.find("layer_types") != nullptr) h.without_effect("sliding_window_pattern");  // which says the same
  read_window_pattern(h, window, 4, model);
  if (window > 0) rotate_windows_alone(model.decoder);
  read_deepseek_like(h,
                     {.count = 64,
                      .per_token = 8,
                      .shared = 1,
                      .dense = 1,
                      .renormalize = true,
                      .intermediate = 1024,
                      .scale = 2.5f,
                      .shared_name = "num_shared_experts"},
                     model);
}

}  // namespace

PAGODA_FAMILY(exaone_moe) = {
    .configs = {{"ExaoneMoeForCausalLM", "exaone_moe", kAbsent, read},
                {"ExaoneMoEForCausalLM", "exaone_moe", kAbsent, read}},
    .ggufs = {{"exaone-moe",
               {.experts = {.known = true, .score = RouterScore::sigmoid}},
               read_gguf_rotating_windows}},
    .shape = norm_heads,
    .folder_experts = ExpertPlaces{.shared = "shared_experts", .correction = "mlp.e_score_correction_bias"},
    .row = {.name = "K-EXAONE 236B-A23B",
            .differs = "norms of queries and keys, windows, which alone rotate, sigmoid routing with a "
                       "correction behind dense layers",
            .size = "236B",
            .config = R"({"model_type":"exaone_moe","hidden_size":6144,"num_hidden_layers":48,"head_dim":128,
                       "num_attention_heads":64,"num_key_value_heads":8,"num_experts":128,
                       "max_position_embeddings":262144,"sliding_window":128})"}};

}  // namespace pagoda
