#pragma once
// Bodies of text-generation-inference's /generate and /generate_stream -> one engine request. As in TGI,
// decoding is greedy unless the parameters ask for sampling, and answers have at most 1,024 tokens unless
// they set a limit. Unsupported parameters are refused by name; warnings name unknown ones. Threads: any.
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
  std::vector<GrammarSpec> grammars;  // alternatives for the constraint
  AnswerOptions answer;
  std::string inputs;  // prepended to the answer's text if the full text is requested; else empty
  std::optional<std::uint64_t> seed;
  bool stream = false;
  bool details = false;
  bool prefill = false;      // return prompt tokens with their log-probabilities
  std::int32_t num_top = 0;  // most likely tokens reported for each token
  Warnings warnings;
};

enum class TgiRoute : std::uint8_t { generate, generate_stream, root };  // `root`: the body decides

Result<TgiCall> parse_tgi_call(std::string_view body, TgiRoute route, const ApiContext& context);

}  // namespace pagoda
