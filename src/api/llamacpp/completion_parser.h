#pragma once
// Bodies of /completion and /infill -> a request of the engine. llama.cpp's fields that change the answer and
// are not built are refused by name; those that tune its own machine are ignored. Errors name the field by
// its dotted path. Threads: any.
#include <string>
#include <string_view>

#include "api/api_context.h"
#include "api/chat_call.h"
#include "base/status.h"

namespace pagoda {

struct LlamaCompletion {
  Request request;
  std::vector<GrammarSpec> grammars;  // that hold the answer
  AnswerOptions answer;
  bool stream = false;
  std::string prompt;  // as the answer shows it
};

Result<LlamaCompletion> parse_llama_completion(std::string_view body, bool infill, const ApiContext& context);

}  // namespace pagoda
