#include "cli/assembly/default_model.h"

#include <cstdlib>
#include <filesystem>

#include "base/strings.h"

namespace pagoda {
namespace {

constexpr const char* kFileName = "SmolLM2-135M-Instruct.Q4_1.gguf";  // as script/model names it

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

}  // namespace

std::string cache_directory() {
  if (auto cache = environment("PAGODA_CACHE"); !cache.empty()) return cache;
  if (auto xdg = environment("XDG_CACHE_HOME"); !xdg.empty()) return xdg + "/pagoda";
  return environment("HOME") + "/.cache/pagoda";
}

Result<std::string> default_model() {
  const std::string path = concat(cache_directory(), "/models/", kFileName);
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) return path;
  return not_found(concat("no MODEL given, and the default one is not at ", path,
                          " (script/model fetches it): name a folder, a .gguf file or ORG/NAME"));
}

}  // namespace pagoda
