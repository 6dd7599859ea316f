#pragma once
// pagoda chat: a conversation in the terminal with a model in this process, or with a running server.
#include <cstdint>
#include <string>

#include "base/status.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

struct ChatArgs {
  EngineFlags engine;
  std::string url;                 // a server that answers instead of an engine; empty: none
  std::string system_prompt;       // empty: none
  std::string first;               // first word of `run`: a model, or the prompt (typed_words.h)
  std::string prompt;              // if not empty, answer this prompt and exit (--quick)
  std::int32_t max_tokens = 1024;  // per answer
  bool history = true;             // keep typed lines for later sessions
};

Status run_chat(const ChatArgs& args);
// pagoda run, as in Ollama: a single answer if there is a prompt, typed or piped.
Status run_run(const ChatArgs& args);

}  // namespace pagoda
