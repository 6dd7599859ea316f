#pragma once
// Input and output of rendering. parser.h parses the template and render.h runs it; text/chat_template.h
// combines them.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/byte_range.h"
#include "base/clock.h"

namespace pagoda {

struct TemplateLimits {
  std::int64_t max_steps = 5'000'000;
  std::size_t max_output_bytes = std::size_t{4} << 20;
  std::int32_t max_depth = 100;  // macros and loops calling each other, and nested blocks
  TimeNs max_time = 0;           // by TemplateOptions::clock; 0: no limit
};

struct TemplateOptions {
  bool trim_blocks = true;
  bool lstrip_blocks = true;
  std::optional<std::int64_t> now_unix_seconds;  // for strftime_now; nullopt: the system's clock
  TemplateLimits limits;
  std::shared_ptr<const Clock> clock = {};  // for limits.max_time; null: time is not limited
};

struct RenderedText {
  std::string text;
  // The parts of `text` that came unmodified from the context's strings (user input): pass them as
  // EncodeOptions::plain_ranges, so that special tokens typed by a user stay text.
  std::vector<ByteRange> user_ranges;
};

}  // namespace pagoda
