#include "server/keys/key_usage.h"

#include "base/strings.h"

namespace pagoda {
namespace {

Counter& counter(MetricsRegistry& registry, const char* what, const char* help, const std::string& name) {
  return registry.counter(concat("pagoda:key_", what), help, concat("key=\"", name, "\""));
}

std::int64_t whole(const Counter& counter) { return static_cast<std::int64_t>(counter.value()); }

}  // namespace

KeyUsage::KeyUsage(MetricsRegistry& registry, const std::string& name)
    : prompt_(counter(registry, "prompt_tokens", "Prompt tokens by the key's name.", name)),
      cached_(counter(registry, "cached_tokens",
                      "Prompt tokens found in the prefix cache, by the key's name.", name)),
      completion_(counter(registry, "completion_tokens", "Tokens of answers by the key's name.", name)),
      requests_(counter(registry, "requests", "Calls that generate or tokenize, by the key's name.", name)),
      errors_(counter(registry, "errors", "Such calls that were answered with an error.", name)) {}

void KeyUsage::add_tokens(const UsedTokens& tokens) {
  prompt_.add(static_cast<double>(tokens.prompt));
  cached_.add(static_cast<double>(tokens.cached));
  completion_.add(static_cast<double>(tokens.completion));
}

void KeyUsage::add_request(bool failed) {
  requests_.add();
  if (failed) errors_.add();
}

KeyUsage::Totals KeyUsage::totals() const {
  return {.tokens = {.prompt = whole(prompt_), .cached = whole(cached_), .completion = whole(completion_)},
          .requests = whole(requests_),
          .errors = whole(errors_)};
}

}  // namespace pagoda
