#pragma once
// ChatTemplate: a model's Jinja chat template, rendered as `transformers` does (trim_blocks and
// lstrip_blocks on, its extra filters and globals), sandboxed: bounded steps, depth, output and time;
// no attribute reaches the host.
// Threads: any; render() is const and keeps its state on its own stack.
#include <boost/json/object.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/tokenizer.h"

namespace pagoda {

struct TemplateLimits {
  std::int64_t max_steps = 5'000'000;
  std::size_t max_output_bytes = std::size_t{4} << 20;
  std::int32_t max_depth = 100;  // macros and loops calling each other, and nested blocks
};

struct TemplateOptions {
  bool trim_blocks = true;
  bool lstrip_blocks = true;
  std::optional<std::int64_t> now_unix_seconds;  // for strftime_now; absent: the system's clock
  TemplateLimits limits;
};

struct RenderedPrompt {
  std::string text;
  // The parts of `text` that came out of the context's strings unchanged in origin (what users typed):
  // pass as EncodeOptions::plain_ranges, so that special tokens typed by a user stay text.
  std::vector<ByteRange> user_ranges;
};

class ChatTemplate {
 public:
  static Result<ChatTemplate> parse(std::string source, TemplateOptions options = {});
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  // invalid_argument with the template's own text when it calls raise_exception, or a limit is reached.
  Result<RenderedPrompt> render(const boost::json::object& context) const;

  const std::string& source() const;

  enum class ContentFormat {
    text,           // a message's content is printed: lists must be joined first
    text_or_parts,  // the template also loops over a list of parts
    parts_only,     // it loops without asking whether it has a text
  };
  ContentFormat content_format() const;

 private:
  ChatTemplate();
  struct Program;
  std::unique_ptr<Program> program_;
};

}  // namespace pagoda
