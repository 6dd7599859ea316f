#pragma once
// pagoda chat: a conversation in the terminal with a model in this process, or with a running server.
#include <cstdint>
#include <string>

#include "base/status.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

struct ChatArgs {
  EngineFlags engine;
  std::string url;                 // a server that answers instead; empty: none
  std::string system_prompt;       // empty: none
  std::string first;               // first word of run: a model, or the prompt (typed_words.h)
  std::string prompt;              // not empty: answer this one and leave (--quick)
  std::int32_t max_tokens = 1024;  // one answer
  bool history = true;             // typed lines are kept for the next time
};

Status run_chat(const ChatArgs& args);
// pagoda run, as Ollama's: one answer where there is a prompt, typed or by pipe.
Status run_run(const ChatArgs& args);

}  // namespace pagoda
