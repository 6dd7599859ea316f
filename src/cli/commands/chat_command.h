#pragma once
// pagoda chat: an interactive conversation in the terminal with a model in this process.
#include <cstdint>
#include <string>

#include "base/status.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

struct ChatArgs {
  EngineFlags engine;
  std::string system_prompt;       // empty: none
  std::string prompt;              // not empty: answer this one and leave (--quick)
  std::int32_t max_tokens = 1024;  // of one answer
  double temperature = 0.7;
  double top_p = 1.0;
};

Status run_chat(const ChatArgs& args);

}  // namespace pagoda
