// IQuest-Coder: Llama under two class names.
#include "models/reading.h"

namespace pagoda::iquestcoder {

constexpr std::string_view kAbsent =
    R"({"vocab_size":76800,"hidden_size":5120,"intermediate_size":27648,"num_hidden_layers":80,
        "num_attention_heads":40,"num_key_value_heads":8,"head_dim":128,"max_position_embeddings":131072,
        "rms_norm_eps":1e-5,"bos_token_id":1,"eos_token_id":2})";

void read_iquestcoder(Hyperparameters& h, ModelInfo&) {
  h.only("clip_qkv", nullptr);
  h.only("use_sliding_window", false);
  h.without_effect("max_window_layers sliding_window");
}

extern const Family family = {
    .architecture = "iquestcoder",
    .configs = {{"IQuestCoderForCausalLM", "iquestcoder", kAbsent, read_iquestcoder},
                {"LlamaForCausalLM", "iquestcoder", kAbsent, read_iquestcoder}},
    .row = {.name = "IQuest-Coder 40B",
            .differs = "–",
            .size = "40B",
            .config = R"({"model_type":"iquestcoder"})"}};

}  // namespace pagoda::iquestcoder
