#include "api/unknown_fields.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <string>

#include "base/log.h"
#include "base/strings.h"

namespace pagoda {
namespace {

constexpr std::size_t kMaxNames = 256, kMaxNameBytes = 64;

// What a client wrote goes into a log only as far as it is a name.
bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kMaxNameBytes && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

bool is_new(std::string name) {
  static std::mutex mutex;
  static std::set<std::string>* const seen = new std::set<std::string>;
  const std::lock_guard lock(mutex);
  return seen->size() < kMaxNames && seen->insert(std::move(name)).second;
}

}  // namespace

void note_unknown_fields(const FieldReader& fields, std::string_view protocol,
                         std::initializer_list<std::string_view> harmless) {
  for (const std::string_view name : fields.unread()) {
    if (std::ranges::find(harmless, name) != harmless.end() || !is_name(name)) continue;
    if (is_new(concat(protocol, "/", name)))
      log_warning("api",
                  concat("a request has a field '", name, "', which ", protocol, " does not know here"));
  }
}

}  // namespace pagoda
