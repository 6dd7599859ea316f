// GLM-4 9B: Llama with biases, adjacent pairs in half of each head, gate and up in one matrix.
#include "models/reading.h"

namespace pagoda {

PAGODA_FAMILY(glm) = {.architecture = "glm",
                      .configs = {{"GlmForCausalLM", "glm", {}, read_glm, Reads::all}},
                      .ggufs = {{"chatglm", {.interleaved_rows = true, .context_instead_of_width = 131072}}},
                      .names = glm_names,
                      .row = {.name = "GLM 4 9B",
                              .differs = "adjacent pairs in half of each head, fused gate and up",
                              .size = "9B",
                              .config = R"({"model_type":"glm"})"}};

}  // namespace pagoda
