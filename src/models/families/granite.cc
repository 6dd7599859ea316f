// Granite: Llama with scales of the embedding, of each sublayer's output, of the scores and of the logits.
#include "models/reading.h"

namespace pagoda::granite {

extern const Family family = {
    .configs = {{"GraniteForCausalLM", "granite",
                 R"({"intermediate_size":11008,"rms_norm_eps":1e-6,"bos_token_id":1,"eos_token_id":2})",
                 read_granite_scales}},
    .wrappers = {{"GraniteSpeechForConditionalGeneration", "granite_speech", "granite"}},
    .ggufs = {{"granite", {.interleaved_rows = true}, read_gguf_granite}},
    .gguf_names = granite_gguf_names,
    .row = {.name = "Granite 3: 2B, 8B",
            .differs = "four scales",
            .size = "8B",
            .config = R"({"model_type":"granite","num_hidden_layers":40,"num_key_value_heads":8})"}};

}  // namespace pagoda::granite
