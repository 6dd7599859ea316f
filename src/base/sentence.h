#pragma once
// One full stop at the end of a message, whoever wrote its last words: a template's error, a library's, ours.
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
