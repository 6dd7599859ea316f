// DeepSeek-MoE 16B, the first DeepSeek with mixtures: Llama with mixtures behind a dense layer and experts
// for all tokens.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read(Hyperparameters& h, ModelConfig& config) {
  read_common(h,
              {.vocab_size = 102400,
               .hidden_size = 4096,
               .intermediate_size = 11008,
               .num_layers = 30,
               .num_heads = 32,
               .max_positions = 2048,
               .norm_eps = 1e-6f,
               .bos = 100000,
               .eos = 100001},
              config);
  read_deepseek_like(h,
                     {.count = 64,
                      .per_token = 6,
                      .shared = 2,
                      .dense = 0,
                      .renormalize = false,
                      .score = ExpertScore::softmax,
                      .intermediate = 1407},
                     config);
  h.only("moe_layer_freq", 1);
}

void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {.interleaved_rows = true, .experts = {.known = true, .renormalize = false}}, config);
  read_layers_with_routers(h, config);
}

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::hugging_face) names.experts = hf_expert_names("mlp", "shared_experts");
  return names;
}

}  // namespace

PAGODA_FAMILY(deepseek_moe) = {
    .architecture = "deepseek",
    .configs = {{"DeepseekForCausalLM", "DeepseekModel", "deepseek", read}},
    .ggufs = {{"deepseek", read_gguf}},
    .describe = common_description,
    .names = names,
    .row = {.name = "DeepSeek-MoE 16B",
            .differs = "mixtures behind a dense layer, shared experts",
            .checked = "transformers' Qwen 2 MoE on the same numbers",
            .size = "16B",
            .config = R"({"model_type":"deepseek","hidden_size":2048,"num_hidden_layers":28,
                       "num_attention_heads":16,"max_position_embeddings":4096,"first_k_dense_replace":1})"}};

}  // namespace pagoda
