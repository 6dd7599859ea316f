// MiniMax-M2: Llama with mixtures, norms of all query heads and of all key heads, and heads of which a part
// rotates.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_minimax_m2(Hyperparameters& h, ModelConfig& config) {
  Defaults absent = {.vocab_size = 200064,
                     .hidden_size = 3072,
                     .intermediate_size = 1536,
                     .num_layers = 62,
                     .num_heads = 48,
                     .num_kv_heads = 8,
                     .max_positions = 196608,
                     .norm_eps = 1e-6f,
                     .rope_theta = 5000000.0f,
                     .bos = 200034,
                     .eos = 200020,
                     .head_size = 128};
  absent.partial = 1;
  read_common(h, absent, config);
  const std::int32_t turned = h.integer("rotary_dim", 0);  // as old files say it, and new ones beside
  const json::object* const rope = h.object("rope_parameters");
  const bool other =
      h.written("partial_rotary_factor") || (rope != nullptr && rope->contains("partial_rotary_factor"));
  if (turned != 0 && !other) config.rotary_size = turned;
  ExpertsConfig& experts = config.experts;
  experts.count = num_experts(h, 256);
  experts.per_token = h.integer("num_experts_per_tok", 8);
  experts.intermediate_size = config.intermediate_size;
  experts.score = ExpertScore::sigmoid;
  experts.renormalize = true;
}

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::gguf) return names;
  const std::string_view correction = "block_sparse_moe.e_score_correction_bias";
  ExpertNames stored = {.router = "block_sparse_moe.gate",
                        .correction = std::string(correction),
                        .gate = "block_sparse_moe.experts.{}.w1",
                        .up = "block_sparse_moe.experts.{}.w3",
                        .down = "block_sparse_moe.experts.{}.w2"};
  names.experts = hf_expert_names("mlp", "");
  for (ExpertNames& each : names.experts) each.correction = "mlp.e_score_correction_bias";
  names.experts.insert(names.experts.begin(), stored);
  return names;
}

void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {.experts = {.known = true, .score = ExpertScore::sigmoid}}, config);
  read_layers_with_routers(h, config);
}

}  // namespace

PAGODA_FAMILY(minimax_m2) = {
    .architecture = "minimax-m2",
    .configs = {{"MiniMaxM2ForCausalLM", "MiniMaxM2Model", "minimax_m2", read_minimax_m2}},
    .ggufs = {{"minimax-m2", read_gguf}},
    .describe = olmoe_description,
    .names = names,
    .row = {.name = "MiniMax M2",
            .differs = "sigmoid routing with a correction, norms of all heads together; one rank only",
            .checked = "transformers",
            .size = "230B-A10B",
            .config = R"({"model_type":"minimax_m2"})"}};

}  // namespace pagoda
