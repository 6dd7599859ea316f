#include "tensor/memory_limits.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <string_view>
#include <vector>

namespace pagoda {
namespace {

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(std::move(word));
  return words;
}

template <class Function>
void for_each_line(const std::string& text, Function function) {
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) function(line);
}

std::optional<std::int64_t> number_of(const std::string& text) {
  const std::size_t begin = std::min(text.find_first_not_of(" \t\n"), text.size());
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + begin, text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;  // e.g. "max"
  return value;
}

std::optional<std::int64_t> number_in(const FileReader& read, const std::string& path) {
  const std::optional<std::string> text = read(path);
  return text ? number_of(*text) : std::nullopt;
}

// Returns the number after `key` in a file of key-value lines; 0 if absent.
std::int64_t field_in(const FileReader& read, const std::string& path, std::string_view key) {
  std::int64_t found = 0;
  for_each_line(read(path).value_or(""), [&](const std::string& line) {
    const std::vector<std::string> words = words_of(line);
    if (words.size() >= 2 && words[0] == key) found = number_of(words[1]).value_or(0);
  });
  return found;
}

// One of the two kinds of cgroup hierarchy, with the names of its files.
struct Hierarchy {
  const char* filesystem;
  const char* limit;
  const char* used;
  const char* reclaimable;  // key in memory.stat
  bool v1;
};
constexpr Hierarchy kV2 = {"cgroup2", "memory.max", "memory.current", "inactive_file", false};
constexpr Hierarchy kV1 = {"cgroup", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file",
                           true};

bool has_item(const std::string& list, std::string_view item) {
  std::istringstream stream(list);
  for (std::string word; std::getline(stream, word, ',');)
    if (word == item) return true;
  return false;
}

// Returns the process's path in that hierarchy, according to /proc/self/cgroup.
std::optional<std::string> path_in(const FileReader& read, const Hierarchy& kind) {
  std::optional<std::string> path;
  for_each_line(read("/proc/self/cgroup").value_or(""), [&](const std::string& line) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) return;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (kind.v1 ? has_item(controllers, "memory") : controllers.empty()) path = line.substr(second + 1);
  });
  return path;
}

struct Mount {
  std::string root, point;
};

std::optional<Mount> mount_of(const FileReader& read, const Hierarchy& kind) {
  std::optional<Mount> mount;
  for_each_line(read("/proc/self/mountinfo").value_or(""), [&](const std::string& line) {
    const std::vector<std::string> words = words_of(line);
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 6 || words.end() - dash < 4 || dash[1] != kind.filesystem) return;
    if (kind.v1 && !has_item(dash[3], "memory")) return;
    mount = {.root = words[3], .point = words[4]};
  });
  return mount;
}

std::int64_t headroom_of(const FileReader& read, const Hierarchy& kind) {
  const std::optional<std::string> path = path_in(read, kind);
  const std::optional<Mount> mount = mount_of(read, kind);
  if (!path || !mount) return kNoMemoryLimit;
  // The mounted folder may itself be a cgroup below the root. Paths are then relative to it, or cannot be
  // resolved.
  std::string below = *path;
  if (mount->root != "/") below = below.starts_with(mount->root) ? below.substr(mount->root.size()) : "";
  if (below.find("..") != std::string::npos) below.clear();
  while (below.ends_with('/')) below.pop_back();
  std::int64_t headroom = kNoMemoryLimit;
  for (;;) {
    const std::string folder = mount->point + below + "/";
    const std::optional<std::int64_t> limit = number_in(read, folder + kind.limit);
    const std::optional<std::int64_t> used = number_in(read, folder + kind.used);
    if (limit && used) {
      const std::int64_t cache = std::clamp<std::int64_t>(
          field_in(read, folder + "memory.stat", kind.reclaimable), 0, std::max<std::int64_t>(*used, 0));
      headroom = std::min(headroom, std::max<std::int64_t>(0, *limit - (*used - cache)));
    }
    if (below.empty()) return headroom;
    below.resize(below.rfind('/') == std::string::npos ? 0 : below.rfind('/'));
  }
}

}  // namespace

std::int64_t cgroup_headroom(const FileReader& read) {
  return std::min(headroom_of(read, kV2), headroom_of(read, kV1));
}

std::int64_t rlimit_headroom(const FileReader& read, std::int64_t address_space, std::int64_t data) {
  const auto left = [&read](std::int64_t limit, const char* key) {
    if (limit == kNoMemoryLimit) return limit;
    return std::max<std::int64_t>(0, limit - field_in(read, "/proc/self/status", key) * 1024);
  };
  return std::min(left(address_space, "VmSize:"), left(data, "VmData:"));
}

}  // namespace pagoda
