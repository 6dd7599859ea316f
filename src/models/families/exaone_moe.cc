// K-EXAONE: Qwen 3 with windows, which alone rotate, and mixtures behind dense layers, chosen as
// DeepSeek-V3's.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read(Hyperparameters& h, ModelInfo& model) {
  read_common(
      h,
      {.vocab_size = 102400, .intermediate_size = 16384, .num_kv_heads = 32, .bos = 1, .eos = 53, .pad = 0},
      model);
  const std::int32_t window = read_window(h, 4096);
  if (h.find("layer_types") != nullptr) h.without_effect({"sliding_window_pattern"});  // which says the same
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

void read_gguf(Hyperparameters& h, ModelInfo& model) {
  read_gguf_common(h, {.experts = {.known = true, .score = RouterScore::sigmoid}}, model);
  if (model.decoder.layers.front().attention()->sliding_window == 0) return;
  read_gguf_window_pattern(h, 4, model);
  rotate_windows_alone(model.decoder);
}

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::gguf) return names;
  names.experts = hf_expert_names("mlp", "shared_experts");
  for (ExpertNames& form : names.experts) form.correction = "mlp.e_score_correction_bias";
  return names;
}

}  // namespace

PAGODA_FAMILY(exaone_moe) = {
    .architecture = "exaone-moe",
    .configs = {{"ExaoneMoeForCausalLM", "ExaoneMoeModel", "exaone_moe", read},
                {"ExaoneMoEForCausalLM", "ExaoneMoEModel", "exaone_moe", read}},
    .ggufs = {{"exaone-moe", read_gguf}},
    .shape = norm_heads,
    .names = names,
    .row = {.name = "K-EXAONE 236B-A23B",
            .differs = "norms of queries and keys, windows, which alone rotate, sigmoid routing with a "
                       "correction behind dense layers",
            .checked = "transformers",
            .size = "236B",
            .config = R"({"model_type":"exaone_moe","hidden_size":6144,"num_hidden_layers":48,"head_dim":128,
                       "num_attention_heads":64,"num_key_value_heads":8,"num_experts":128,
                       "max_position_embeddings":262144,"sliding_window":128})"}};

}  // namespace pagoda
