#pragma once
// Bodies of /api/generate and /api/chat -> an engine request. Unsupported Ollama options that would change
// the answer are refused by name; options that tune Ollama's own machine (num_ctx, num_gpu, keep_alive …)
// have no effect here and are ignored. Errors name the field by its dotted path. Threads: any.
#include <optional>
#include <string_view>

#include "api/api_context.h"
#include "api/chat_call.h"
#include "base/status.h"

namespace pagoda {

struct OllamaCall {
  std::optional<Request> request;  // nullopt: the call only loads or unloads the model
  bool unloads = false;
  std::vector<GrammarSpec> grammars;  // alternatives for the constraint
  AnswerOptions answer;
  Warnings warnings = {};
  bool chat = false;
  bool stream = true;
};

Result<OllamaCall> parse_ollama_call(std::string_view body, bool chat, const ApiContext& context);

// choose_model() that takes "NAME:latest" as NAME.
Result<AdapterCatalog::Handle> choose_ollama_model(std::string_view name, const ApiContext& context);
Status check_ollama_model(std::string_view name, const ApiContext& context);

}  // namespace pagoda
