// Code World Model: Llama with a window in three of four layers.
#include "models/reading.h"

namespace pagoda::cwm {

extern const Family family = {
    .architecture = "cwm",
    .configs = {{"CwmForCausalLM", "cwm",
                 R"({"vocab_size":128256,"hidden_size":6144,"intermediate_size":21504,"num_hidden_layers":64,
                     "num_attention_heads":48,"num_key_value_heads":8,"head_dim":128,"rms_norm_eps":1e-5,
                     "max_position_embeddings":131072,"bos_token_id":128000,"sliding_window":8192})",
                 [](Hyperparameters& h, ModelInfo& model) {
                   if (has_plain_rope(h)) return h.fail("rope_parameters", "given");
                   use_windows(
                       h, read_window(h),
                       read_window_layers_or(h, model, [](std::int32_t layer) { return layer % 4 != 0; }),
                       model);
                 }}},
    .row = {.name = "Code World Model (CWM) 32B",
            .differs = "windows in three of four layers",
            .size = "32B",
            .config = R"({"model_type":"cwm","rope_parameters":{"rope_type":"llama3","rope_theta":1000000,
                          "factor":16,"high_freq_factor":4,"low_freq_factor":1,
                          "original_max_position_embeddings":8192}})"}};

}  // namespace pagoda::cwm
