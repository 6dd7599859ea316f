// Granite: Llama with scales of the embedding, of what each half adds, of the scores and of the logits.
#include "models/reading.h"

namespace pagoda {
namespace {

void read_gguf(Hyperparameters& h, ModelInfo& model) {
  read_granite_scales(h, model);
  // Files of Granite 4 whose layers all attend keep the sizes of states that no layer has.
  h.without_effect(
      "ssm.conv_kernel ssm.time_step_rank ssm.group_count ssm.state_size ssm.inner_size "
      "expert_shared_feed_forward_length");
}

}  // namespace

PAGODA_FAMILY(granite) = {
    .configs = {{"GraniteForCausalLM", "granite", {}, read_granite, Reads::all}},
    .wrappers = {{"GraniteSpeechForConditionalGeneration", "granite_speech", "granite"}},
    .ggufs = {{"granite", {.interleaved_rows = true}, read_gguf}},
    .row = {.name = "Granite 3: 2B, 8B",
            .differs = "four scales",
            .size = "8B",
            .config = R"({"model_type":"granite","num_hidden_layers":40,"num_key_value_heads":8})"}};

}  // namespace pagoda
