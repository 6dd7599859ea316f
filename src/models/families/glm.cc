// GLM-4 9B: Llama with biases, adjacent pairs in half of each head, gate and up in one matrix.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_gguf(Hyperparameters& h, ModelInfo& model) {
  read_gguf_common(h, {.interleaved_rows = true, .context_instead_of_width = 131072}, model);
}

}  // namespace

PAGODA_FAMILY(glm) = {.architecture = "glm",
                      .configs = {{"GlmForCausalLM", "GlmModel", "glm", read_glm}},
                      .ggufs = {{"chatglm", read_gguf}},
                      .names = glm_names,
                      .row = {.name = "GLM 4 9B",
                              .differs = "adjacent pairs in half of each head, fused gate and up",
                              .checked = "transformers",
                              .size = "9B",
                              .config = R"({"model_type":"glm"})"}};

}  // namespace pagoda
