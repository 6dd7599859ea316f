// Arcee: Llama with a plain MLP with squared ReLU.
#include "models/reading.h"

namespace pagoda::arcee {

extern const Family family = {
    .configs = {{"ArceeForCausalLM", "arcee",
                 R"({"hidden_size":2560,"intermediate_size":18432,"max_position_embeddings":4096,
                     "bos_token_id":128000,"eos_token_id":128001,"hidden_act":"relu2"})"}},
    .ggufs = {{"arcee", {.activation = "relu2", .interleaved_rows = true}}},
    .shape = plain_feed_forwards,
    .row = {.name = "Arcee AFM 4.5B",
            .differs = "plain MLP of squared ReLU",
            .size = "4.5B",
            .config = R"({"model_type":"arcee","num_hidden_layers":36,"num_attention_heads":20,
                          "num_key_value_heads":4})"}};

}  // namespace pagoda::arcee
