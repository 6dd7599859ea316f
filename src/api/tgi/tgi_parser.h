#pragma once
// Bodies of text-generation-inference's /generate and /generate_stream -> one request of the engine. As in
// TGI, an answer is greedy unless the parameters ask for sampling, and takes 1,024 tokens at most unless they
// say how many. Parameters that are not built are refused by name; unknown ones are named in the warnings.
// Threads: any.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/api_context.h"
#include "api/chat_call.h"
#include "api/warnings.h"
#include "base/status.h"

namespace pagoda {

struct TgiCall {
  Request request;
  std::vector<GrammarSpec> grammars;  // that hold the answer
  AnswerOptions answer;
  std::string inputs;  // before the answer's text, where the full text is asked for; else empty
  std::optional<std::uint64_t> seed;
  bool stream = false;
  bool details = false;
  bool prefill = false;      // tokens of the prompt with their log-probabilities
  std::int32_t num_top = 0;  // likeliest tokens told beside each
  Warnings warnings;
};

enum class TgiRoute : std::uint8_t { generate, generate_stream, root };  // the body of `root` says which

Result<TgiCall> parse_tgi_call(std::string_view body, TgiRoute route, const ApiContext& context);

}  // namespace pagoda
