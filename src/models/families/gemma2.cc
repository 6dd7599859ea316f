// Gemma 2: Gemma 1 with norms on both sides of each half, soft caps, and a window in every second layer.
#include "models/reading.h"

namespace pagoda {
namespace {

// Every second layer has a window, the first among them; soft caps on scores and logits.
void read_gemma2(Hyperparameters& h, ModelInfo& model) {
  Defaults absent = kGemma;
  absent.hidden_size = 2304;
  absent.num_layers = 26;
  absent.max_positions = 8192;
  read_common(h, absent, model);
  offset_norms(model.decoder);
  read_query_scale(h, model.decoder);
  const auto cap = [&](std::string_view name, float absent) {
    return h.written(name) ? h.number(name, 0) : absent;
  };
  cap_attention(cap("attn_logit_softcapping", 50), model.decoder);
  model.decoder.logit_softcap = cap("final_logit_softcapping", 30);
  h.only("use_bidirectional_attention", false);
  read_window_pattern(h, h.integer("sliding_window", 4096), 2, model);
}

void read_gguf(Hyperparameters& h, ModelInfo& model) {
  cap_attention(h.number("attn_logit_softcapping", 0.0f), model.decoder);
  model.decoder.logit_softcap = h.number("final_logit_softcapping", 0.0f);
  read_gguf_window_pattern(h, 2, model);
  // The file does not say that the 27B model, alone with 46 layers, divides by its width a head.
  if (model.decoder.num_layers() == 46) scale_attention_by_width(model.decoder);
}

}  // namespace

PAGODA_FAMILY(gemma2) = {
    .configs = {{"Gemma2ForCausalLM", "gemma2", {}, read_gemma2, Reads::all}},
    .ggufs = {{"gemma2", {.activation = "gelu_new"}, read_gguf}},
    .shape = sandwich_gemma_shape,
    .names = gemma2_names,
    .row = {
        .name = "Gemma 2: 2B, 9B, 27B",
        .differs =
            "soft caps of scores and logits, norms on both sides of each half, windows in every second layer",
        .size = "9B",
        .config = R"({"model_type":"gemma2","num_hidden_layers":42,"num_attention_heads":16,
                       "num_key_value_heads":8})"}};

}  // namespace pagoda
