// GgufFile: its metadata by key.
#include <limits>

#include "loader/gguf.h"

namespace pagoda {

namespace {
template <class T>
const T* get(const std::map<std::string, GgufValue, std::less<>>& metadata, std::string_view key) {
  const auto entry = metadata.find(key);
  return entry == metadata.end() ? nullptr : std::get_if<T>(&entry->second);
}
}  // namespace

std::optional<std::int64_t> GgufFile::integer(std::string_view key) const {
  if (const auto* value = get<std::int64_t>(metadata_, key)) return *value;
  if (const auto* value = get<std::uint64_t>(metadata_, key)) {
    if (*value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return static_cast<std::int64_t>(*value);
    }
  }
  return std::nullopt;
}

std::optional<double> GgufFile::number(std::string_view key) const {
  if (const auto* value = get<double>(metadata_, key)) return *value;
  if (const std::optional<std::int64_t> value = integer(key)) return static_cast<double>(*value);
  return std::nullopt;
}

std::optional<bool> GgufFile::boolean(std::string_view key) const {
  if (const auto* value = get<bool>(metadata_, key)) return *value;
  return std::nullopt;
}

const std::string* GgufFile::string(std::string_view key) const { return get<std::string>(metadata_, key); }

const GgufArray* GgufFile::array(std::string_view key) const {
  const auto* value = get<std::shared_ptr<GgufArray>>(metadata_, key);
  return value == nullptr ? nullptr : value->get();
}

}  // namespace pagoda
