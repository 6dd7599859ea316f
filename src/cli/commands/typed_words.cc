#include "cli/commands/typed_words.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "base/assign_or_return.h"
#include "base/strings.h"

namespace pagoda {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{32} << 20;

}  // namespace

Result<std::string> piped_text(std::string_view otherwise) {
  const Status nothing =
      invalid_argument(concat("no text given: type one in quotes, or pipe it in", otherwise));
  if (isatty(STDIN_FILENO) == 1) return nothing;
  std::string text;
  char buffer[1 << 16];
  for (std::size_t got = 0; (got = std::fread(buffer, 1, sizeof buffer, stdin)) > 0;) {
    if (text.size() + got > kMaxBytes)
      return invalid_argument("standard input: the text is larger than 32 MiB");
    text.append(buffer, got);
  }
  if (text.ends_with('\n')) text.pop_back();
  if (text.empty()) return nothing;
  return text;
}

Result<TypedWords> typed_words(const std::string& first, const std::string& second, bool model_given) {
  if (!second.empty()) return TypedWords{first, second};
  std::error_code error;
  const bool is_model = !model_given && !first.empty() && std::filesystem::exists(first, error);
  if (!first.empty() && !is_model) return TypedWords{"", first};
  PAGODA_ASSIGN_OR_RETURN(auto text, piped_text(", or --input FILE"));
  return TypedWords{first, std::move(text)};
}

}  // namespace pagoda
