// Youtu-LLM (Tencent): DeepSeek-V3's latent attention with dense feed-forwards.
#include "models/reading.h"

namespace pagoda {

PAGODA_FAMILY(youtu) = {.architecture = "youtu",
                        .configs = {{"YoutuForCausalLM",
                                     "youtu",
                                     {.vocab_size = 128256,
                                      .hidden_size = 2048,
                                      .intermediate_size = 6144,
                                      .num_heads = 16,
                                      .num_kv_heads = 16,
                                      .max_positions = 131072,
                                      .norm_eps = 1e-6f,
                                      .bos = 128000,
                                      .eos = 128001,
                                      .tied = true},
                                     [](Hyperparameters& h, ModelInfo& model) {
                                       model.decoder.interleaved_rows = h.boolean("rope_interleave", true);
                                       h.without_effect("embedding_initializer_range");
                                       read_latent(h, kDeepSeekLatent, model);
                                     }}},
                        .names = latent_names,
                        .row = {.name = "Youtu-LLM 2B",
                                .differs = "latent attention; as GGUF it is a `deepseek2`",
                                .size = "2B",
                                .config = R"({"model_type":"youtu"})"}};

}  // namespace pagoda
