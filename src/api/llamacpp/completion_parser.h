#pragma once
// Bodies of /completion and /infill -> engine requests, one per prompt. Unsupported llama.cpp fields that
// would change the answer are refused by name; fields that tune llama.cpp's own machine are ignored, and
// unknown fields are logged. Errors name the field by its dotted path. Threads: any.
#include <string>
#include <string_view>

#include "api/api_context.h"
#include "api/chat_call.h"
#include "api/warnings.h"
#include "base/status.h"

namespace pagoda {

struct LlamaCompletion {
  std::vector<Request> requests;
  std::vector<GrammarSpec> grammars;  // alternatives for the constraint
  AnswerOptions answer;
  bool stream = false;
  std::vector<std::string> prompts;          // as shown in the answer
  std::vector<std::string> response_fields;  // paths of fields in the last piece; empty: all
  bool timings_per_token = false;
  Warnings warnings;
};

Result<LlamaCompletion> parse_llama_completion(std::string_view body, bool infill, const ApiContext& context);

}  // namespace pagoda
