#include "loader/no_model_bytes.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace pagoda {

std::string_view no_model_because(std::span<const std::byte> bytes) {
  if (bytes.empty()) return "the file is empty: download it again";
  std::string begin(reinterpret_cast<const char*>(bytes.data()), std::min<std::size_t>(bytes.size(), 40));
  std::ranges::transform(begin, begin.begin(), [](unsigned char c) { return std::tolower(c); });
  if (begin.starts_with("version https://git-lfs"))
    return "the file is a Git LFS pointer, not the model: run 'git lfs pull' in its folder";
  if (begin.starts_with("<!doctype") || begin.starts_with("<html") || begin.starts_with("<?xml"))
    return "the file is a web page, not the model: download it by its file address";
  return {};
}

}  // namespace pagoda
