#include "cli/chat/chat_flags.h"

#include <utility>

#include "cli/flags/flag_values.h"

namespace pagoda {

std::vector<Flag> chat_flags(ChatArgs& args) {
  return {
      {.name = "system-prompt", .value = flags::text(args.system_prompt, "TEXT"), .help = "system prompt"},
      {.name = "quick",
       .value = flags::text(args.prompt, "TEXT"),
       .help = "answer this prompt and exit",
       .aliases = {"-q"}},
      {.name = "url",
       .value = flags::text(args.url, "URL"),
       .help = "use a running server at http://HOST:PORT, with --api-key if it needs one"},
      {.name = "history",
       .value = flags::on_off(args.history),
       .help = "keep a history of typed lines across sessions"},
      {.name = "max-tokens",
       .value = flags::int32(args.max_tokens, 1),
       .help = "maximum number of output tokens per answer",
       .aliases = {"-n", "--n-predict", "--predict"}},
  };
}

std::vector<Flag> run_flags(ChatArgs& args) {
  std::vector<Flag> rows = {
      {.positional = "MODEL",
       .value = flags::text(args.first, "PATH"),
       .help = "model, as --model; text that cannot be a model name is the prompt",
       .default_text = "the default model"},
      {.positional = "PROMPT",
       .value = flags::text(args.prompt, "TEXT"),
       .help = "prompt; without one: piped standard input, otherwise a chat"},
  };
  for (Flag& row : chat_flags(args))
    if (row.name != "quick" && row.name != "url" && row.name != "history") rows.push_back(std::move(row));
  return rows;
}

}  // namespace pagoda
