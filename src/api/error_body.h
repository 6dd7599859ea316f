#pragma once
// The error body that OpenAI clients read: {"error": {"message", "type", "param", "code"}}.
// Threads: any.
#include <string>

#include "api/errors.h"

namespace pagoda {

std::string openai_error_body(const ApiError& error);

}  // namespace pagoda
