#include "server/keys/key_file.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <limits>

#include "base/strings.h"

namespace pagoda {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 20;
constexpr std::size_t kMaxKeys = 4096, kMaxDigests = 8, kMaxKeyBytes = 512;
constexpr std::int64_t kMaxPerMinute = 1'000'000'000'000;
constexpr std::int32_t kMaxWeight = 1000;

class Reader {
 public:
  explicit Reader(const std::string& name) : name_(name) {}

  Result<std::vector<KeyEntry>> read(const YAML::Node& root) {
    if (!root.IsMap()) return refuse(root, "the list `keys:` is missing");
    YAML::Node list;
    for (const auto& pair : root) {
      if (!pair.first.IsScalar() || pair.first.Scalar() != "keys")
        return refuse(pair.first, "unknown key: the file has one list, `keys:`");
      if (list.IsDefined() && !list.IsNull()) return refuse(pair.first, "`keys:` is given twice");
      list.reset(pair.second);
    }
    if (!list.IsSequence() || list.size() == 0) return refuse(root, "`keys:` must be a list");
    if (list.size() > kMaxKeys) return refuse(list, concat("more than ", kMaxKeys, " keys"));
    for (const YAML::Node& item : list) PAGODA_RETURN_IF_ERROR(entry(item));
    return std::move(entries_);
  }

 private:
  Status refuse(const YAML::Node& node, const std::string& problem) const {
    return invalid_argument(concat(name_, ":", std::max(node.Mark().line, 0) + 1, ": ", problem));
  }

  Status entry(const YAML::Node& node) {
    if (!node.IsMap()) return refuse(node, "each entry must be a mapping with `name` and `sha256`");
    KeyEntry out;
    bool priority_given = false;
    std::vector<std::string> seen;
    for (const auto& pair : node) {
      if (!pair.first.IsScalar()) return refuse(pair.first, "a field has no name");
      const std::string& field = pair.first.Scalar();
      if (std::ranges::count(seen, field) > 0) return refuse(pair.first, "a field is given twice");
      seen.push_back(field);
      if (field == "max_priority") priority_given = true;
      PAGODA_RETURN_IF_ERROR(take(field, pair.first, pair.second, out));
    }
    if (out.name.empty()) return refuse(node, "`name` is missing");
    if (out.digests.empty()) return refuse(node, concat("'", out.name, "' has neither `key` nor `sha256`"));
    if (!priority_given && out.role == Role::user) out.max_priority = 0;
    for (const KeyEntry& other : entries_) {
      if (other.name == out.name) return refuse(node, concat("two entries have the name '", out.name, "'"));
    }
    for (const KeyDigest& digest : out.digests) {
      if (std::ranges::count(digests_, digest) > 0)
        return refuse(node, concat("'", out.name, "' has the same key as another entry"));
      digests_.push_back(digest);
    }
    entries_.push_back(std::move(out));
    return ok_status();
  }

  Status take(const std::string& field, const YAML::Node& key, const YAML::Node& value, KeyEntry& out) {
    if (field == "key" || field == "sha256") {
      if (value.IsScalar()) return secret(field, value, out);
      if (!value.IsSequence() || value.size() > kMaxDigests)
        return refuse(key, "`key` and `sha256` must be a value or a list of values");
      for (const YAML::Node& item : value) PAGODA_RETURN_IF_ERROR(secret(field, item, out));
      return ok_status();
    }
    if (!value.IsScalar()) return refuse(key, "a field has no value");
    const std::string& text = value.Scalar();
    if (field == "name") {
      if (!is_key_name(text))
        return refuse(value,
                      "`name` must have 1 to 64 letters, digits, '.', '_' and '-', and must not be reserved");
      out.name = text;
      return ok_status();
    }
    if (field == "role") {
      for (const Role role : {Role::user, Role::metrics, Role::admin}) {
        if (text != name_of(role)) continue;
        out.role = role;
        return ok_status();
      }
      return refuse(value, "`role` must be user, metrics or admin");
    }
    const auto number = [&](std::int64_t low, std::int64_t high) -> Result<std::int64_t> {
      std::int64_t parsed = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
      if (error == std::errc() && end == text.data() + text.size() && parsed >= low && parsed <= high)
        return parsed;
      return refuse(value, concat("`", field, "` must be a whole number between ", low, " and ", high));
    };
    using Int32 = std::numeric_limits<std::int32_t>;
    const auto into = [&](auto& place, std::int64_t low, std::int64_t high) -> Status {
      const Result<std::int64_t> parsed = number(low, high);
      if (!parsed) return parsed.error();
      place = static_cast<std::remove_reference_t<decltype(place)>>(*parsed);
      return ok_status();
    };
    if (field == "weight") return into(out.weight, 1, kMaxWeight);
    if (field == "requests_per_minute") return into(out.requests_per_minute, 1, kMaxPerMinute);
    if (field == "tokens_per_minute") return into(out.tokens_per_minute, 1, kMaxPerMinute);
    if (field == "max_model_len") return into(out.max_model_len, 1, Int32::max());
    if (field == "max_priority") {
      std::int32_t priority = 0;
      PAGODA_RETURN_IF_ERROR(into(priority, Int32::min(), Int32::max()));
      out.max_priority = priority;
      return ok_status();
    }
    return refuse(key,
                  "unknown field; the fields are name, key, sha256, role, weight, requests_per_minute, "
                  "tokens_per_minute, max_priority and max_model_len");
  }

  Status secret(const std::string& field, const YAML::Node& value, KeyEntry& out) {
    if (!value.IsScalar()) return refuse(value, "a key must be a plain value");
    const std::string& text = value.Scalar();
    if (field == "key") {
      const bool visible = std::ranges::all_of(text, [](char c) { return c > 0x20 && c < 0x7f; });
      if (text.empty() || text.size() > kMaxKeyBytes || !visible)
        return refuse(value, concat("`key` must be 1 to ", kMaxKeyBytes, " visible ASCII characters"));
      out.digests.push_back(digest_of_key(text));
      return ok_status();
    }
    const std::optional<KeyDigest> digest = digest_from_hex(text);
    if (!digest) return refuse(value, "`sha256` must be 64 hexadecimal digits");
    out.digests.push_back(*digest);
    return ok_status();
  }

  const std::string& name_;
  std::vector<KeyEntry> entries_;
  std::vector<KeyDigest> digests_;
};

// The column of the list's first dash; nullopt unless the list is in block style (dashes) at the end of the
// file.
std::optional<std::size_t> dash_column(const std::string& text) {
  std::size_t at = 0;
  std::optional<std::size_t> column;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    const std::size_t first = line.find_first_not_of(' ');
    if (!column && first != std::string_view::npos && line.substr(first).starts_with("- ")) column = first;
    at = end + 1;
  }
  return column;
}

}  // namespace

bool is_key_name(std::string_view name) {
  if (name == kAnonymous || name == kAdminSocket || name.empty() || name.size() > 64) return false;
  return std::ranges::all_of(name, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '_' || c == '-';
  });
}

Result<std::vector<KeyEntry>> parse_key_file(const std::string& text, const std::string& name) {
  if (text.size() > kMaxBytes) return invalid_argument(concat(name, ": is larger than 1 MiB"));
  try {
    return Reader(name).read(YAML::Load(text));
  } catch (const YAML::Exception& error) {
    // The library's message may quote the file, including a key.
    return invalid_argument(concat(name, ":", std::max(error.mark.line, 0) + 1, ": is not valid YAML"));
  } catch (const std::exception&) {
    return invalid_argument(concat(name, ": is not valid YAML"));
  }
}

Result<std::vector<KeyEntry>> read_key_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxBytes + 1, '\0');
  if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad() || (file.fail() && !file.eof()))
    return not_found(concat("cannot read the API key file ", path, ": ", std::strerror(errno)));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return parse_key_file(text, path);
}

Result<std::string> with_new_key(const std::string& text, const std::string& name, const KeyEntry& entry) {
  const bool empty = text.find_first_not_of(" \n\r\t") == std::string::npos;
  std::vector<KeyEntry> before;
  if (!empty) {
    Result<std::vector<KeyEntry>> read = parse_key_file(text, name);
    if (!read) return read.error();
    before = *std::move(read);
  }
  for (const KeyEntry& other : before)
    if (other.name == entry.name)
      return invalid_argument(concat(name, ": there is already a key '", entry.name, "'"));
  const std::string indent(empty ? 2 : dash_column(text).value_or(2), ' ');
  std::string out = empty ? std::string("keys:\n") : text;
  if (!out.ends_with('\n')) out.push_back('\n');
  out.append(concat(indent, "- name: ", entry.name, "\n"));
  for (const KeyDigest& digest : entry.digests)
    out.append(concat(indent, "  sha256: ", hex_of(digest), "\n"));
  out.append(concat(indent, "  role: ", name_of(entry.role), "\n"));
  const Result<std::vector<KeyEntry>> after = parse_key_file(out, name);
  if (!after || after->size() != before.size() + 1 || after->back().name != entry.name)
    return invalid_argument(
        concat(name, ": a key cannot be appended to a file of this layout; add it by hand"));
  return out;
}

}  // namespace pagoda
