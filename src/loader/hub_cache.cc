#include "loader/hub_cache.h"

#include <algorithm>
#include <filesystem>

#include "base/strings.h"
#include "loader/mapped_file.h"

namespace pagoda {
namespace {

// True for one path component of letters, digits, '-', '_' and '.' that does not refer to another folder.
bool plain_component(std::string_view text) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return !text.empty() && text.size() <= 96 && text.front() != '.' && text.find("..") == text.npos &&
         std::all_of(text.begin(), text.end(), plain);
}

// True for at most `max_components` components joined by '/'.
bool plain_path(std::string_view text, int max_components) {
  for (int i = 0; i < max_components; ++i) {
    const std::size_t slash = text.find('/');
    if (!plain_component(text.substr(0, slash))) return false;
    if (slash == text.npos) return true;
    text.remove_prefix(slash + 1);
  }
  return false;
}

bool is_folder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

}  // namespace

std::optional<HubName> parse_hub_name(std::string_view text) {
  HubName name;
  if (const std::size_t at = text.find('@'); at != text.npos) {
    name.revision = text.substr(at + 1);
    text = text.substr(0, at);
    if (!plain_path(name.revision, 4)) return std::nullopt;
  }
  // "--" replaces the slash in folder names, so the hub allows it in no name.
  if (!plain_path(text, 2) || text.find("--") != text.npos) return std::nullopt;
  name.repository = text;
  return name;
}

std::optional<std::string> find_in_hub_cache(const HubName& name, const HubPaths& hub,
                                             std::vector<std::string>& tried) {
  std::string folder = "models--" + name.repository;
  if (const std::size_t slash = folder.find('/'); slash != folder.npos) folder.replace(slash, 1, "--");
  for (const std::string& cache : hub.cache_dirs) {
    const std::string model = concat(cache, "/", folder);
    const std::string ref = concat(model, "/refs/", name.revision);
    if (const Result<std::string> text = read_text_file(ref, 4096)) {
      std::string commit = *text;
      while (!commit.empty() && (commit.back() == '\n' || commit.back() == '\r' || commit.back() == ' ')) {
        commit.pop_back();
      }
      const std::string snapshot = concat(model, "/snapshots/", commit);
      if (plain_component(commit) && is_folder(snapshot)) return snapshot;
    }
    const std::string snapshot = concat(model, "/snapshots/", name.revision);  // REV may also be a commit
    if (plain_component(name.revision) && is_folder(snapshot)) return snapshot;
    tried.push_back(is_folder(model) ? concat(model, " (has no snapshot '", name.revision, "')") : model);
  }
  return std::nullopt;
}

}  // namespace pagoda
