#pragma once
// Bodies of /api/generate and /api/chat -> a request of the engine. Options of Ollama's that change the
// answer and are not built are refused by name; those that tune its own machine (num_ctx, num_gpu, keep_alive
// …) have no meaning here and are ignored. Errors name the field by its dotted path. Threads: any.
#include <optional>
#include <string_view>

#include "api/api_context.h"
#include "api/chat_call.h"
#include "base/status.h"

namespace pagoda {

struct OllamaCall {
  std::optional<Request> request;  // absent: only that the model is loaded, or leaves, was asked for
  bool unloads = false;
  std::vector<GrammarSpec> grammars;  // that hold the answer
  AnswerOptions answer;
  Warnings warnings = {};
  bool chat = false;
  bool stream = true;
};

Result<OllamaCall> parse_ollama_call(std::string_view body, bool chat, const ApiContext& context);

// choose_model(), for whom "NAME:latest" is NAME.
Result<AdapterCatalog::Handle> choose_ollama_model(std::string_view name, const ApiContext& context);
Status check_ollama_model(std::string_view name, const ApiContext& context);

}  // namespace pagoda
