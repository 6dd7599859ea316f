// DeepSeek-V2, V3 and those built like them (Moonlight, Kimi-K2, GLM-4.7-Flash): latent attention, mixtures
// behind dense layers.
#include "models/reading.h"

namespace pagoda {
namespace {

void read_deepseek_v2(Hyperparameters& h, ModelInfo& model) {
  read_deepseek_like(h,
                     {.count = 64,
                      .per_token = 6,
                      .shared = 2,
                      .dense = 0,
                      .renormalize = false,
                      .score = RouterScore::softmax,
                      .intermediate = 1407},
                     model);
  h.only("norm_topk_prob", false);
  h.only("moe_layer_freq", 1);
  if (h.string("topk_method", "greedy") != "greedy")
    h.only("topk_method", "group_limited_greedy");
  else
    each_mixture(model.decoder, [](MixtureConfig& mixture) {
      mixture.routing.num_groups = mixture.routing.groups_used = 1;
    });
  read_latent(h, kDeepSeekLatent, model);
}

constexpr Defaults kV3 = {.vocab_size = 129280,
                          .hidden_size = 7168,
                          .intermediate_size = 18432,
                          .num_layers = 61,
                          .num_heads = 128,
                          .num_kv_heads = 128,
                          .max_positions = 4096,
                          .norm_eps = 1e-6f,
                          .bos = 0,
                          .eos = 1};

void read_deepseek_v3(Hyperparameters& h, ModelInfo& model) {
  model.decoder.interleaved_rows = h.boolean("rope_interleave", true);
  read_deepseek_like(h,
                     {.count = 256,
                      .per_token = 8,
                      .shared = 1,
                      .dense = 3,
                      .renormalize = true,
                      .groups = 8,
                      .groups_used = 4,
                      .intermediate = 2048,
                      .scale = 2.5f},
                     model);
  h.only("topk_method", "noaux_tc");
  h.only("moe_layer_freq", 1);
  read_latent(h, kDeepSeekLatent, model);
}

void read_glm4_moe_lite(Hyperparameters& h, ModelInfo& model) {
  model.decoder.interleaved_rows = h.boolean("rope_interleave", true);
  read_deepseek_like(h,
                     {.count = 64,
                      .per_token = 4,
                      .shared = 1,
                      .dense = 1,
                      .renormalize = true,
                      .intermediate = 1536,
                      .scale = 1.8f},
                     model);
  h.only("topk_method", "noaux_tc");
  read_latent(h,
              {.query_rank = 768, .latent_size = 512, .nope_size = 192, .rope_size = 64, .value_size = 256},
              model);
}

}  // namespace

PAGODA_FAMILY(deepseek) = {
    .configs = {{"DeepseekV2ForCausalLM",
                 "deepseek_v2",
                 {.vocab_size = 102400,
                  .intermediate_size = 11008,
                  .norm_eps = 1e-6f,
                  .bos = 1,
                  .eos = 2,
                  .interleaved_rows = true},
                 read_deepseek_v2},
                {"DeepseekV3ForCausalLM", "deepseek_v3", kV3, read_deepseek_v3},
                {"DeepseekV3ForCausalLM", "kimi_k2", kV3, read_deepseek_v3},
                {"Glm4MoeLiteForCausalLM",
                 "glm4_moe_lite",
                 {.vocab_size = 154880,
                  .hidden_size = 2048,
                  .intermediate_size = 10240,
                  .num_layers = 47,
                  .num_heads = 20,
                  .num_kv_heads = 20,
                  .max_positions = 202752,
                  .bos = 0,
                  .eos = 1},
                 read_glm4_moe_lite}},
    .wrappers = {{"Kimi_K25ForConditionalGeneration", "kimi_k25", "deepseek_v3"}},
    .ggufs = {{"deepseek2", {}, read_gguf_deepseek, Reads::all}},
    .names = latent_names,
    .row = {.name = "DeepSeek V2, V2-Lite, Coder-V2, V3, R1, Moonlight, Kimi K2, text of K2.5, GLM-4.7-Flash",
            .differs = "latent attention; mixtures behind dense layers, shared experts, routing by softmax, "
                       "in groups or not; V3 and later: GLM 4.5's routing",
            .size = "V2-Lite",
            .config = R"({"model_type":"deepseek_v2","hidden_size":2048,"num_hidden_layers":27,
                       "num_attention_heads":16,"q_lora_rank":null,"n_routed_experts":64,
                       "num_experts_per_tok":6,"n_group":1,"topk_group":1,"topk_method":"greedy"})"}};

}  // namespace pagoda
