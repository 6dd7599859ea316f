// Ministral 3: Llama with a query temperature.
#include "models/reading.h"

namespace pagoda::ministral3 {

void read_ministral3(Hyperparameters& h, ModelInfo& model) {
  if (has_plain_rope(h)) {
    RopeConfig& rope = model.decoder.ropes.front();
    rope.scaling = RopeScaling::yarn;
    rope.factor = 16;
    rope.original_positions = 16384;
    set_query_temperature(0.1f, rope.original_positions, model.decoder);
  }
  use_windows(h, h.integer("sliding_window", 0), {}, model);
}

void read_gguf(Hyperparameters& h, ModelInfo& model) {
  set_query_temperature(h.number("attention.temperature_scale", 0.0f),
                        model.decoder.ropes.front().original_positions, model.decoder);
  h.without_effect("attention.temperature_length");
}

extern const Family family = {.configs = {{"Ministral3ForCausalLM", "ministral3",
                                           R"({"vocab_size":131072,"intermediate_size":14336,
                                               "num_hidden_layers":34,"num_key_value_heads":8,
                                               "max_position_embeddings":262144,"rope_theta":1000000,
                                               "bos_token_id":1,"eos_token_id":2,"pad_token_id":11,
                                               "head_dim":128})",
                                           read_ministral3}},
                              .ggufs = {{"mistral3", {.interleaved_rows = true}, read_gguf}},
                              .row = {.name = "Ministral 3: 3B, 8B, 14B, Mistral Small 3.1 and later (text)",
                                      .differs = "YaRN, query temperature",
                                      .size = "8B"}};

}  // namespace pagoda::ministral3
