#include "api/prompt_limits.h"

#include "base/strings.h"

namespace pagoda {

bool exceeds_byte_bound(const ApiContext& context, std::size_t bytes) {
  return bytes / context.longest_token_bytes > static_cast<std::size_t>(context.max_model_len);
}

Status context_length_exceeded(const ApiContext& context, std::string_view param, std::string_view detail) {
  return invalid_argument(
             concat("This model's maximum context length is ", context.max_model_len, " tokens. ", detail))
      .with_param(std::string(param))
      .with_reason("context_length_exceeded");
}

}  // namespace pagoda
