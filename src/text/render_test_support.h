#pragma once
// For tests only: renders a template given as text.
#include <boost/json/object.hpp>
#include <string>

#include "text/chat_template.h"

namespace pagoda {

inline constexpr std::int64_t kFrozenNow = 1752148800;  // 2025-07-10 12:00

inline TemplateOptions options(bool trim) {
  TemplateOptions result;
  result.trim_blocks = result.lstrip_blocks = trim;
  result.now_unix_seconds = kFrozenNow;
  return result;
}

inline Result<RenderedText> render(const std::string& source, const boost::json::object& context = {},
                                   bool trim = true) {
  const Result<ChatTemplate> parsed = ChatTemplate::parse(source, options(trim));
  if (!parsed) return parsed.error();
  return parsed.value().render(context);
}

inline std::string text_of(const std::string& source, const boost::json::object& context = {}) {
  const Result<RenderedText> prompt = render(source, context);
  return prompt ? prompt->text : "error: " + prompt.error().message();
}

inline bool is_refused(const std::string& source) { return text_of(source).starts_with("error: "); }

}  // namespace pagoda
