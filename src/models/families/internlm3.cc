// InternLM 3: Llama with other defaults.
#include "models/reading.h"

namespace pagoda::internlm3 {

constexpr std::string_view kAbsent =
    R"({"vocab_size":128512,"intermediate_size":10240,"num_hidden_layers":48,"num_key_value_heads":2,
        "max_position_embeddings":32768,"bos_token_id":1,"eos_token_id":2,"pad_token_id":2,"head_dim":128})";

void read(Hyperparameters& h, ModelInfo&) { h.without_effect("qkv_bias bias"); }

extern const Family family = {
    .architecture = "llama",
    .configs = {{"InternLM3ForCausalLM", "internlm3", kAbsent, read},
                {"LlamaForCausalLM", "internlm3", kAbsent, read}},
    .row = {.name = "InternLM 3 8B", .differs = "–; as GGUF it is a `llama`", .size = "8B"}};

}  // namespace pagoda::internlm3
