#include "cli/assembly/default_model.h"

#include <cstdlib>
#include <filesystem>

#include "base/strings.h"
#include "cli/environment_variable.h"

namespace pagoda {
namespace {

constexpr const char* kFileName = "SmolLM2-135M-Instruct.Q4_1.gguf";  // must match script/model

}  // namespace

std::string cache_directory() {
  if (auto cache = environment_variable("PAGODA_CACHE"); !cache.empty()) return cache;
  if (auto xdg = environment_variable("XDG_CACHE_HOME"); !xdg.empty()) return xdg + "/pagoda";
  return environment_variable("HOME") + "/.cache/pagoda";
}

std::string model_name_of(const std::string& path) {
  std::filesystem::path name(path);
  if (name.filename().empty()) name = name.parent_path();
  return name.extension() == ".gguf" ? name.stem().string() : name.filename().string();
}

std::string default_model_path() { return concat(cache_directory(), "/models/", kFileName); }

Result<std::string> default_model() {
  const std::string path = default_model_path();
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) return path;
  return not_found(concat("no MODEL was specified and the default model is not at ", path,
                          ": name a folder, a .gguf file or ORG/NAME, or run script/model to download it"));
}

}  // namespace pagoda
