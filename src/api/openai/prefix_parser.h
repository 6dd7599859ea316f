#pragma once
// Shared prefixes as the operator writes them, in the body of POST /admin/prefixes or the file of
// --prefix-file -> names and tokens.
//     {"name": "rules", "text": "…"}         tokenised as a completion's prompt is
//     {"name": …, "prompt": "…" or [ids]}    the same, or ids
//     {"name": …, "token_ids": [ids]}
//     {"name": …, "messages": […]}           through the chat template, without a generation prompt
// Errors name the field by its dotted path. Threads: any.
#include <string>
#include <string_view>
#include <vector>

#include "api/api_context.h"
#include "base/status.h"

namespace pagoda {

struct PrefixSpec {
  std::string name;
  std::vector<TokenId> token_ids;  // at least one
  std::string source;              // the field that gave the tokens
};

Result<PrefixSpec> parse_prefix(std::string_view body, const ApiContext& context);

// Parses one such object or a list of them, with distinct names.
Result<std::vector<PrefixSpec>> parse_prefix_file(std::string_view text, const ApiContext& context);

// Rewrites the engine's refusal of a prefix, which names the prompt, to name the field that the prefix came
// from.
Status rename_param(Status status, const PrefixSpec& prefix);

}  // namespace pagoda
