#pragma once
// `pagoda render`: renders conversations with a chat template, without a model. Reads contexts and writes
// prompts, one JSON object per line.

#include <string>
#include <vector>

#include "cli/flags/flag.h"

namespace pagoda {

struct RenderArgs {
  std::string template_path;
  std::string input_path;  // JSON Lines, each an object: messages, tools, add_generation_prompt, bos_token, …
  bool trim_blocks = true;  // as in transformers; off for plain Jinja
  bool lstrip_blocks = true;
};

std::vector<Flag> render_flags(RenderArgs& args);
// Writes {"text": …} or {"error": …} for each line to standard output. A line's "now" (seconds since 1970, or
// text such as "2025-07-10 12:00", used without conversion) is the time returned by strftime_now.
// If the template does not parse, every line gets that error. Returns 0, or 2 after one line on standard
// error if a file cannot be read or written.
int run_render(const RenderArgs& args);

}  // namespace pagoda
