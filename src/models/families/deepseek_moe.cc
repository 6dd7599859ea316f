// DeepSeek-MoE 16B, the first DeepSeek with mixtures: Llama with mixtures behind a dense layer and experts
// for all tokens.
#include "models/reading.h"

namespace pagoda {
namespace {

void read(Hyperparameters& h, ModelInfo& model) {
  read_deepseek_like(h,
                     {.count = 64,
                      .per_token = 6,
                      .shared = 2,
                      .dense = 0,
                      .renormalize = false,
                      .score = RouterScore::softmax,
                      .intermediate = 1407},
                     model);
  h.only("moe_layer_freq", 1);
}

}  // namespace

PAGODA_FAMILY(deepseek_moe) = {
    .configs = {{"DeepseekForCausalLM",
                 "deepseek",
                 {.vocab_size = 102400,
                  .intermediate_size = 11008,
                  .num_layers = 30,
                  .norm_eps = 1e-6f,
                  .bos = 100000,
                  .eos = 100001},
                 read}},
    .ggufs = {{"deepseek", {.interleaved_rows = true, .experts = {.known = true, .renormalize = false}}}},
    .folder_experts = ExpertPlaces{.shared = "shared_experts"},
    .row = {.name = "DeepSeek-MoE 16B",
            .differs = "mixtures behind a dense layer, shared experts",
            .checked = "transformers' Qwen 2 MoE on the same numbers",
            .size = "16B",
            .config = R"({"model_type":"deepseek","hidden_size":2048,"num_hidden_layers":28,
                       "num_attention_heads":16,"max_position_embeddings":4096,"first_k_dense_replace":1})"}};

}  // namespace pagoda
