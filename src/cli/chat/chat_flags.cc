#include "cli/chat/chat_flags.h"

#include <utility>

#include "cli/flags/flag_values.h"

namespace pagoda {

std::vector<Flag> chat_flags(ChatArgs& args) {
  return {
      {.name = "system-prompt", .value = flags::text(args.system_prompt, "TEXT"), .help = "system prompt"},
      {.name = "quick",
       .value = flags::text(args.prompt, "TEXT"),
       .help = "answer this and leave",
       .aliases = {"-q"}},
      {.name = "url",
       .value = flags::text(args.url, "URL"),
       .help = "talk to a running server, http://HOST:PORT, with --api-key where it needs one"},
      {.name = "history",
       .value = flags::on_off(args.history),
       .help = "keep what was typed at a terminal for the next time"},
      {.name = "max-tokens",
       .value = flags::int32(args.max_tokens, 1),
       .help = "token limit of one answer",
       .aliases = {"-n", "--n-predict", "--predict"}},
  };
}

std::vector<Flag> run_flags(ChatArgs& args) {
  std::vector<Flag> rows = {
      {.positional = "MODEL",
       .value = flags::text(args.first, "PATH"),
       .help = "model, as --model; a text that can be no model's name is the prompt",
       .default_text = "the default model"},
      {.positional = "PROMPT",
       .value = flags::text(args.prompt, "TEXT"),
       .help = "prompt; without one: piped standard input, else a conversation"},
  };
  for (Flag& row : chat_flags(args))
    if (row.name != "quick" && row.name != "url" && row.name != "history") rows.push_back(std::move(row));
  return rows;
}

}  // namespace pagoda
