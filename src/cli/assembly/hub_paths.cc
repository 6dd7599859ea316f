#include "cli/assembly/hub_paths.h"

#include <cstdlib>
#include <string>

#include "cli/environment_variable.h"

namespace pagoda {
namespace {

std::string expand_home(std::string path) {
  if (path == "~" || path.starts_with("~/")) path.replace(0, 1, environment_variable("HOME"));
  return path;
}

// The home folder of huggingface_hub: HF_HOME, or huggingface/ in the user's cache folder.
std::string hub_home() {
  if (const std::string home = environment_variable("HF_HOME"); !home.empty()) return expand_home(home);
  std::string cache = expand_home(environment_variable("XDG_CACHE_HOME"));
  if (cache.empty()) cache = environment_variable("HOME") + "/.cache";
  return cache + "/huggingface";
}

}  // namespace

std::string hub_token_file_from_environment() {
  const std::string path = environment_variable("HF_TOKEN_PATH");
  return path.empty() ? hub_home() + "/token" : expand_home(path);
}

HubPaths hub_paths_from_environment() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const std::string value = environment_variable(name); !value.empty()) return {{expand_home(value)}};
  }
  return {{hub_home() + "/hub"}};
}

}  // namespace pagoda
