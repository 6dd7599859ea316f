// Command R, R+ (Cohere): layer norms without biases, one for both halves, which see the same; adjacent
// pairs; scaled logits. R+ has norms of every query and key head.
#include "models/reading.h"

namespace pagoda {
namespace {

void read_cohere(Hyperparameters& h, ModelInfo& model) {
  Defaults absent = kCohere;
  absent.rope_theta = 500000.0f;
  read_cohere_like(h, absent, model);
  if (h.boolean("use_qk_norm", false)) norm_each_head(model.decoder);
}

void read_gguf(Hyperparameters& h, ModelInfo& model) {
  model.decoder.logit_scale = h.number("logit_scale", 1.0f);
  if (has_query_norm(h)) norm_each_head(model.decoder);
}

}  // namespace

PAGODA_FAMILY(cohere) = {
    .architecture = "cohere",
    .configs = {{"CohereForCausalLM", "cohere", {}, read_cohere, Reads::all}},
    .ggufs = {{"command-r", {.layer_norm = true, .interleaved_rows = true, .parallel = true}, read_gguf}},
    .shape = layer_norms,
    .row = {
        .name = "Command R, R+",
        .differs = "layer norms, both halves see the same, adjacent pairs; R+: a norm of every head's own",
        .size = "R 35B",
        .config = R"({"model_type":"cohere"})"}};

}  // namespace pagoda
