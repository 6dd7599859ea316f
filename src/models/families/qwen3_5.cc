// Qwen3.5, Qwen3.6 and Qwen3.8, dense and with mixtures: Qwen3-Next, whose value heads GGUF files keep in
// another order.
#include "models/reading.h"

namespace pagoda {
namespace {

void read_qwen3_5_moe(Hyperparameters& h, ModelInfo& model) {
  read_delta_net(h, model);
  h.only("norm_topk_prob", true);
  use_mixtures(read_gated_experts(h, 256, 8, model), {}, model);
}

void read_gguf(Hyperparameters& h, ModelInfo& model) { read_gguf_delta_net(h, true, model); }

}  // namespace

PAGODA_FAMILY(qwen3_5) = {
    .configs = {{"Qwen3_5ForCausalLM",
                 "qwen3_5_text",
                 {.vocab_size = 248320,
                  .intermediate_size = 12288,
                  .num_heads = 16,
                  .num_kv_heads = 4,
                  .max_positions = 32768,
                  .norm_eps = 1e-6f,
                  .head_size = 256,
                  .partial = 0.25f},
                 read_delta_net},
                {"Qwen3_5MoeForCausalLM",
                 "qwen3_5_moe_text",
                 {.vocab_size = 248320,
                  .hidden_size = 2048,
                  .intermediate_size = 512,
                  .num_layers = 40,
                  .num_heads = 16,
                  .num_kv_heads = 2,
                  .max_positions = 32768,
                  .norm_eps = 1e-6f,
                  .head_size = 256,
                  .partial = 0.25f},
                 read_qwen3_5_moe,
                 Reads::rest,
                 "qwen35moe"}},
    .wrappers = {{"MiniCPMV4_6ForConditionalGeneration", "minicpmv4_6", "qwen3_5_text"},
                 {"Qwen3_5ForConditionalGeneration", "qwen3_5", "qwen3_5_text"},
                 {"Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe", "qwen3_5_moe_text"}},
    .ggufs = {{"qwen35", {}, read_gguf},
              {"qwen35moe", {.experts = {.known = true, .shared_gate = true}}, read_gguf}},
    .shape = delta_net_shape,
    .names = delta_net_names,
    .row = {.name = "Qwen 3.5, 3.6, 3.8: 0.8B to 27B, 35B-A3B (text)",
            .differs = "a gated delta net in three of four layers, in the others Qwen 3's attention with a "
                       "gate on each head's output; 35B: mixtures; one rank only",
            .size = "35B-A3B",
            .config = R"({"model_type":"qwen3_5_moe_text"})"}};

}  // namespace pagoda
