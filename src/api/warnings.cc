#include "api/warnings.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>

#include "base/log.h"
#include "base/strings.h"

namespace pagoda {
namespace {

constexpr std::size_t kMaxLogged = 256, kMaxNameBytes = 64, kMaxHeaderBytes = 2000;

// One warning value, with its text as a quoted string.
std::string entry_of(std::string_view text) {
  std::string out = "299 pagoda \"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out.push_back('\\');
    out.push_back(c >= 0x20 && c < 0x7f ? c : '?');
  }
  return out + "\"";
}

}  // namespace

void Warnings::add(std::string_view path, std::string_view problem) {
  std::string text = concat(path, ": ", problem);
  if (std::ranges::find(texts_, text) != texts_.end()) return;
  texts_.push_back(std::move(text));
  if (is_new_to_log(std::string(problem))) log_warning("api", concat("in a request: ", problem));
}

void Warnings::add_all(const Warnings& others) {
  for (const std::string& text : others.texts_)
    if (std::ranges::find(texts_, text) == texts_.end()) texts_.push_back(text);
}

std::string Warnings::header() const {
  std::string out;
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    std::string one = entry_of(texts_[i]);
    if (out.size() + one.size() > kMaxHeaderBytes) {
      out.append(out.empty() ? "" : ", ").append(entry_of(concat(texts_.size() - i, " more")));
      break;
    }
    out.append(out.empty() ? "" : ", ").append(one);
  }
  return out;
}

std::string_view name_or_mark(std::string_view text) {
  const bool is_name = !text.empty() && text.size() <= kMaxNameBytes && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == ':';
  });
  return is_name ? text : "?";
}

bool is_new_to_log(std::string text) {
  static std::mutex mutex;
  static std::set<std::string>* const seen = new std::set<std::string>;
  const std::lock_guard lock(mutex);
  return seen->size() < kMaxLogged && seen->insert(std::move(text)).second;
}

}  // namespace pagoda
