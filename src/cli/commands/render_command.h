#pragma once
// `pagoda render`: contexts in, prompts out, one JSON object a line. A look at what a chat template makes of
// a conversation, without a model.

#include <string>
#include <vector>

#include "cli/flags/flag.h"

namespace pagoda {

struct RenderArgs {
  std::string template_path;
  std::string input_path;  // JSON Lines, each an object: messages, tools, add_generation_prompt, bos_token, …
  bool trim_blocks = true;  // as transformers; off for plain Jinja
  bool lstrip_blocks = true;
};

std::vector<Flag> render_flags(RenderArgs& args);
// Writes {"text": …} or {"error": …} for each line to standard output. A line's "now" (seconds since 1970, or
// "2025-07-10 12:00" and the like, taken as it stands) is the time strftime_now sees.
// A template that does not parse is the error of every line. 0, or 2 after one line on standard error: a file
// cannot be read or written.
int run_render(const RenderArgs& args);

}  // namespace pagoda
