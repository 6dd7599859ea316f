#pragma once
// Sampling defaults for interactive chat (`pagoda chat`, the page) where neither the model nor the operator
// sets a value: llama.cpp's defaults. The API uses OpenAI's defaults instead.
#include "api/api_context.h"

namespace pagoda {

inline SamplingDefaults chat_sampling(SamplingDefaults defaults) {
  if (!defaults.temperature) defaults.temperature = 0.8f;
  if (!defaults.top_k) defaults.top_k = 40;
  if (!defaults.top_p) defaults.top_p = 0.95f;
  if (!defaults.min_p) defaults.min_p = 0.05f;
  return defaults;
}

}  // namespace pagoda
