#include "cli/assembly/hub_paths.h"

#include <cstdlib>
#include <string>

namespace pagoda {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string expand_home(std::string path) {
  if (path == "~" || path.starts_with("~/")) path.replace(0, 1, variable("HOME"));
  return path;
}

// huggingface_hub's home: HF_HOME, or the cache folder's.
std::string hub_home() {
  if (const std::string home = variable("HF_HOME"); !home.empty()) return expand_home(home);
  std::string cache = expand_home(variable("XDG_CACHE_HOME"));
  if (cache.empty()) cache = variable("HOME") + "/.cache";
  return cache + "/huggingface";
}

}  // namespace

std::string hub_token_file_from_environment() {
  const std::string path = variable("HF_TOKEN_PATH");
  return path.empty() ? hub_home() + "/token" : expand_home(path);
}

HubPaths hub_paths_from_environment() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const std::string value = variable(name); !value.empty()) return {{expand_home(value)}};
  }
  return {{hub_home() + "/hub"}};
}

}  // namespace pagoda
