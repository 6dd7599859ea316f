#include "api/api_context.h"

#include <algorithm>

#include "base/strings.h"

namespace pagoda {

void ApiContext::make_ready() {
  CHECK(tokenizer != nullptr && !model_names.empty() && max_model_len > 0);
  vocab_size = std::max(vocab_size, 1);
  // A normalizer may merge characters (NFC), so the bound is never below 32 bytes.
  longest_token_bytes = 32;
  for (TokenId id = 0; id < tokenizer->vocab_size(); ++id)
    longest_token_bytes = std::max(longest_token_bytes, tokenizer->token_string(id).size());
}

bool matches_pattern(std::string_view name, std::string_view pattern) {
  // Backtracking: on a mismatch, the last '*' seen takes one more character.
  std::size_t at = 0, in_pattern = 0, taken_to = 0;
  std::size_t star = std::string_view::npos;
  while (at < name.size()) {
    if (in_pattern < pattern.size() && pattern[in_pattern] == '*') {
      star = in_pattern++;
      taken_to = at;
    } else if (in_pattern < pattern.size() && pattern[in_pattern] == name[at]) {
      ++in_pattern;
      ++at;
    } else if (star != std::string_view::npos) {
      in_pattern = star + 1;
      at = ++taken_to;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', in_pattern) == std::string_view::npos;
}

Result<AdapterCatalog::Handle> choose_model(std::string_view name, const ApiContext& context) {
  const AdapterCatalog::Handle none;
  if (std::ranges::find(context.model_names, name) != context.model_names.end()) return none;
  if (context.adapters != nullptr)
    if (AdapterCatalog::Handle adapter = context.adapters->find(name)) return adapter;
  // An empty name means no name, as in vLLM. Hugging Face's clients send "dummy" or "tgi" if their user names
  // no model, since TGI serves only one.
  if (name.empty() || name == "dummy" || name == "tgi") return none;
  const auto matches = [name](const std::string& pattern) { return matches_pattern(name, pattern); };
  if (std::ranges::any_of(context.model_patterns, matches)) return none;
  return not_found(concat("The model `", name, "` does not exist. This server has `",
                          context.model_names.front(), "`."))
      .with_param("model")
      .with_reason("model_not_found");
}

Status check_model(std::string_view name, const ApiContext& context) {
  const Result<AdapterCatalog::Handle> chosen = choose_model(name, context);
  return chosen ? ok_status() : chosen.error();
}

std::vector<std::string> listed_models(const ApiContext& context) {
  std::vector<std::string> names = context.model_names;
  if (context.adapters != nullptr)
    for (const AdapterCatalog::Handle& adapter : context.adapters->list()) names.push_back(adapter->name);
  return names;
}

}  // namespace pagoda
