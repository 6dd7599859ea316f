#pragma once
// Bodies of /completion and /infill -> requests of the engine, one for each prompt. llama.cpp's fields that
// change the answer and are not built are refused by name; those that tune its own machine are ignored, and
// unknown ones logged. Errors name the field by its dotted path. Threads: any.
#include <string>
#include <string_view>

#include "api/api_context.h"
#include "api/chat_call.h"
#include "api/warnings.h"
#include "base/status.h"

namespace pagoda {

struct LlamaCompletion {
  std::vector<Request> requests;
  std::vector<GrammarSpec> grammars;  // that hold the answer
  AnswerOptions answer;
  bool stream = false;
  std::vector<std::string> prompts;          // as the answer shows them
  std::vector<std::string> response_fields;  // paths of what the last piece is to have; empty: all
  bool timings_per_token = false;
  Warnings warnings;
};

Result<LlamaCompletion> parse_llama_completion(std::string_view body, bool infill, const ApiContext& context);

}  // namespace pagoda
