#include "cli/launch/launched_programs.h"

#include <algorithm>
#include <boost/json.hpp>

#include "base/strings.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr std::int64_t kMaxAnswerTokens = 65536;

// A JSON string is also a valid string in TOML and YAML.
std::string as_string(std::string_view text) { return json::serialize(json::string(text)); }

Launch claude(const LaunchTarget& target) {
  Launch launch{.variables = {{"ANTHROPIC_BASE_URL", target.url},
                              {"ANTHROPIC_AUTH_TOKEN", target.some_key()},
                              {"ANTHROPIC_API_KEY", ""},
                              // Its first system block changes with every conversation: no cache hits.
                              {"CLAUDE_CODE_ATTRIBUTION_HEADER", "0"}}};
  for (const char* name :
       {"ANTHROPIC_MODEL", "ANTHROPIC_SMALL_FAST_MODEL", "ANTHROPIC_DEFAULT_OPUS_MODEL",
        "ANTHROPIC_DEFAULT_SONNET_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL", "CLAUDE_CODE_SUBAGENT_MODEL"})
    launch.variables.emplace_back(name, target.model);
  if (target.max_model_len > 0)
    launch.variables.emplace_back("CLAUDE_CODE_MAX_CONTEXT_TOKENS", concat(target.max_model_len));
  return launch;
}

Launch codex(const LaunchTarget& target) {
  Launch launch;
  const auto set = [&launch](std::string_view name, std::string value) {
    // Last, because a subcommand with such options of its own, such as `exec`, ignores options before it.
    launch.last_arguments.insert(launch.last_arguments.end(), {"-c", concat(name, "=", value)});
  };
  std::string provider =
      concat("{name=\"Pagoda\", base_url=", as_string(target.api()), ", wire_api=\"responses\"");
  if (!target.key.empty()) {
    provider += ", env_key=\"PAGODA_API_KEY\"";
    launch.variables.emplace_back("PAGODA_API_KEY", target.key);
  }
  set("model", as_string(target.model));
  set("model_provider", "\"pagoda\"");
  set("model_providers.pagoda", provider + "}");
  if (target.max_model_len > 0) set("model_context_window", concat(target.max_model_len));
  return launch;
}

Launch vibe(const LaunchTarget& target) {
  std::string config = concat("active_model = \"pagoda\"\n\n[[providers]]\nname = \"pagoda\"\napi_base = ",
                              as_string(target.api()), "\n");
  if (!target.key.empty()) config += "api_key_env_var = \"PAGODA_API_KEY\"\n";
  config += concat("\n[[models]]\nname = ", as_string(target.model),
                   "\nprovider = \"pagoda\"\nalias = \"pagoda\"\n");
  if (target.max_model_len > 0)
    config += concat("auto_compact_threshold = ", target.max_model_len * 3 / 4, "\n");
  Launch launch{.variables = {{"VIBE_HOME", target.folder}}, .files = {{"config.toml", config}}};
  if (!target.key.empty()) launch.variables.emplace_back("PAGODA_API_KEY", target.key);
  return launch;
}

Launch hermes(const LaunchTarget& target) {
  std::string config = concat("model:\n  default: ", as_string(target.model),
                              "\n  provider: custom\n  base_url: ", as_string(target.api()),
                              "\n  api_key: ", as_string(target.some_key()), "\n");
  if (target.max_model_len > 0)  // otherwise it requests answers of 65,536 tokens, regardless of the context
    config += concat("  context_length: ", target.max_model_len,
                     "\n  max_tokens: ", std::min(target.max_model_len / 2, kMaxAnswerTokens), "\n");
  return {.variables = {{"HERMES_HOME", target.folder}}, .files = {{"config.yaml", config}}};
}

Launch gptme(const LaunchTarget& target) {
  return {.variables = {{"OPENAI_BASE_URL", target.api()}, {"OPENAI_API_KEY", target.some_key()}},
          .arguments = {"--model", concat("local/", target.model)}};
}

Launch aider(const LaunchTarget& target) {
  return {.variables = {{"OPENAI_API_BASE", target.api()}, {"OPENAI_API_KEY", target.some_key()}},
          .arguments = {"--model", concat("openai/", target.model), "--no-show-model-warnings"}};
}

Launch llm(const LaunchTarget& target) {
  const std::string models =
      concat("- model_id: ", as_string(target.model), "\n  model_name: ", as_string(target.model),
             "\n  api_base: ", as_string(target.api()), "\n  supports_tools: true\n");
  return {.variables = {{"LLM_USER_PATH", target.folder},
                        {"LLM_MODEL", target.model},
                        {"OPENAI_API_KEY", target.some_key()}},
          .files = {{"extra-openai-models.yaml", models}}};
}

Launch opencode(const LaunchTarget& target) {
  json::object limit;
  if (target.max_model_len > 0)
    limit = {{"context", target.max_model_len}, {"output", target.max_model_len / 2}};
  json::object model = {{"name", target.model}};
  if (!limit.empty()) model["limit"] = limit;
  const json::object config = {{"$schema", "https://opencode.ai/config.json"},
                               {"model", concat("pagoda/", target.model)},
                               {"provider",
                                {{"pagoda",
                                  {{"npm", "@ai-sdk/openai-compatible"},
                                   {"name", "Pagoda"},
                                   {"options", {{"baseURL", target.api()}, {"apiKey", target.some_key()}}},
                                   {"models", json::object{{target.model, model}}}}}}}};
  return {.variables = {{"OPENCODE_CONFIG_CONTENT", json::serialize(config)}}};
}

Launch qwen(const LaunchTarget& target) {
  return {.variables = {{"OPENAI_BASE_URL", target.api()},
                        {"OPENAI_API_KEY", target.some_key()},
                        {"OPENAI_MODEL", target.model}}};
}

constexpr LaunchedProgram kPrograms[] = {
    {"claude", "claude", "npm install -g @anthropic-ai/claude-code", claude},
    {"codex", "codex", "npm install -g @openai/codex", codex},
    {"vibe", "vibe", "pip install mistral-vibe", vibe},
    {"hermes", "hermes", "pip install hermes-agent", hermes},
    {"gptme", "gptme", "pip install gptme", gptme},
    {"aider", "aider", "pip install aider-chat", aider},
    {"llm", "llm", "pip install llm", llm},
    {"opencode", "opencode", "npm install -g opencode-ai", opencode},
    {"qwen", "qwen", "npm install -g @qwen-code/qwen-code", qwen},
};

}  // namespace

std::span<const LaunchedProgram> launched_programs() { return kPrograms; }

const LaunchedProgram* find_launched_program(std::string_view name) {
  const auto found = std::ranges::find(kPrograms, name, &LaunchedProgram::name);
  return found == std::end(kPrograms) ? nullptr : found;
}

}  // namespace pagoda
