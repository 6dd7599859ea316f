#include "cli/serve/try_lines.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/strings.h"

namespace pagoda {
namespace {

struct Example {
  std::string_view protocol, path, body;
};

// Returns the first example whose protocol is served; `body` excludes the opening brace.
Example example_of(const ServerFlags& flags, const ApiContext& api) {
  constexpr Example kChat[] = {
      {"openai", "/v1/chat/completions",
       R"("messages": [{"role": "user", "content": "What is the capital of Japan?"}], "temperature": 0})"},
      {"responses", "/v1/responses", R"("input": "What is the capital of Japan?", "temperature": 0})"},
      {"anthropic", "/v1/messages",
       R"("max_tokens": 64, "messages": [{"role": "user", "content": "What is the capital of Japan?"}]})"},
      {"ollama", "/api/generate", R"("prompt": "What is the capital of Japan?", "stream": false})"},
      {"llamacpp", "/completion", R"("prompt": "The capital of France is", "n_predict": 16})"}};
  constexpr Example kText[] = {
      {"openai", "/v1/completions", R"("prompt": "The capital of France is", "max_tokens": 16})"},
      {"ollama", "/api/generate", R"("prompt": "The capital of France is", "raw": true, "stream": false})"},
      {"llamacpp", "/completion", R"("prompt": "The capital of France is", "n_predict": 16})"}};
  constexpr Example kEmbeddings[] = {
      {"pooling", "/v1/embeddings", R"("input": "The capital of France is Paris."})"},
      {"ollama", "/api/embed", R"("input": "The capital of France is Paris."})"}};
  constexpr Example kScore[] = {
      {"pooling", "/score", R"("text_1": "What is the capital of France?", "text_2": "Paris."})"}};
  constexpr Example kClasses[] = {{"pooling", "/classify", R"("input": "The capital of France is Paris."})"}};
  std::span<const Example> examples = api.chat_template != nullptr ? std::span<const Example>(kChat) : kText;
  if (api.vectors) {
    examples = api.vectors->kind == WorkKind::embed ? std::span<const Example>(kEmbeddings) : kClasses;
    if (api.vectors->kind == WorkKind::score && api.vectors->size == 1) examples = kScore;
  }
  const auto served = [&](const Example& example) {
    return flags.apis.empty() || std::ranges::find(flags.apis, example.protocol) != flags.apis.end();
  };
  const auto found = std::ranges::find_if(examples, served);
  return found == examples.end() ? Example() : *found;
}

// The URL for a client on this machine.
std::string own_url(std::string_view url) {
  std::string out(url);
  for (const auto& [any, own] :
       {std::pair<std::string_view, std::string_view>{"//0.0.0.0:", "//127.0.0.1:"}, {"//[::]:", "//[::1]:"}})
    if (const std::size_t at = out.find(any); at != std::string::npos) out.replace(at, any.size(), own);
  return out;
}

}  // namespace

std::string try_lines(std::string_view url, const ServerFlags& flags, const ApiContext& api) {
  const std::string own = own_url(url);
  const std::string at = flags.uds.empty() ? std::string(url) : concat("unix:", flags.uds);
  std::string out = concat("Pagoda serves ", api.model_names.front(), " at ", at, "\n");
  if (const Example example = example_of(flags, api); !example.path.empty()) {
    out += "Try it:\n  curl ";
    if (!flags.uds.empty()) out += concat("--unix-socket ", flags.uds, " ");
    // The certificate is issued for a name, but the URL contains an address.
    if (!flags.ssl_certfile.empty()) out += "-k ";
    if (flags.ssl_cert_reqs == 2) out += "--cert CLIENT.pem ";
    out += concat(own, example.path, " -H 'Content-Type: application/json' \\\n");
    if (!flags.api_keys.empty() || !flags.api_key_file.empty())
      out += "    -H \"Authorization: Bearer $PAGODA_API_KEY\" \\\n";
    out += concat("    -d '{\"model\": \"", api.model_names.front(), "\", ", example.body, "'\n");
  }
  if (flags.page && flags.uds.empty()) out += concat("Or open ", own, "/ in a browser.\n");
  return out;
}

}  // namespace pagoda
