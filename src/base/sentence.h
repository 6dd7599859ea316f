#pragma once
// Ends a message with exactly one full stop, whether it comes from a template, a library or our own code.
#include <string>
#include <string_view>

namespace pagoda {

inline std::string with_full_stop(std::string text) {
  while (text.ends_with(' ') || text.ends_with('\n')) text.pop_back();
  if (!text.ends_with('.') && !text.ends_with('!') && !text.ends_with('?')) text.push_back('.');
  while (text.ends_with("..") && !text.ends_with("...")) text.pop_back();
  return text;
}

}  // namespace pagoda
