// Ministral 8B of 2024: Llama with windows in some layers or in all.
#include "models/reading.h"

namespace pagoda::ministral {

extern const Family family = {
    .architecture = "ministral",
    .configs = {{"MinistralForCausalLM", "ministral",
                 R"({"intermediate_size":14336,"num_key_value_heads":8,"max_position_embeddings":131072,
                     "rms_norm_eps":1e-6,"bos_token_id":1,"eos_token_id":2,"sliding_window":4096})",
                 [](Hyperparameters& h, ModelInfo& model) {
                   use_windows(h, read_window(h), read_window_layers(h, model), model);
                 }}},
    .row = {.name = "Ministral 8B 2410",
            .differs = "windows in some layers; as GGUF it is a `llama`",
            .size = "8B",
            .config = R"({"model_type":"ministral","hidden_size":4096,"num_hidden_layers":36,"head_dim":128,
                          "intermediate_size":12288,"sliding_window":null})"}};

}  // namespace pagoda::ministral
