#include "cli/assembly/hub_settings.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "base/strings.h"
#include "cli/assembly/hub_paths.h"
#include "cli/commands/progress_bar.h"
#include "loader/printable.h"

namespace pagoda {
namespace {

std::string variable(const char* name, const char* otherwise = "") {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : value;
}

bool offline() {
  std::string value = variable("HF_HUB_OFFLINE");
  std::ranges::transform(value, value.begin(),
                         [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

}  // namespace

Result<Pulled> pull_with_progress(const PullName& name) {
  if (offline()) return unavailable("HF_HUB_OFFLINE is set: nothing is fetched");
  std::unique_ptr<ProgressBar> bar;
  std::string shown;
  PullSettings settings;
  settings.endpoint = variable("HF_ENDPOINT", "https://huggingface.co");
  settings.token = variable("HF_TOKEN");
  settings.cache = hub_paths_from_environment().cache_dirs.front();
  settings.progress = [&](const std::string& file, std::int64_t done, std::int64_t total) {
    if (bar == nullptr || file != shown) {
      bar.reset();
      bar = std::make_unique<ProgressBar>(printable(file), total, "bytes");
      shown = file;
    }
    bar->update(done);
  };
  settings.note = [&](const std::string& line) {
    bar.reset();
    std::fprintf(stderr, "%s\n", printable(line).c_str());
  };
  return pull(name, settings);
}

Status fetch_if_missing(EngineFlags& flags) {
  std::error_code error;
  if (flags.model.empty() || std::filesystem::exists(flags.model, error) || flags.mpi_local_size > 0)
    return ok_status();
  const auto name = parse_pull_name(flags.model);
  if (!name) return ok_status();  // the loader says what is wrong with it
  auto found = find_pulled(*name, hub_paths_from_environment().cache_dirs.front());
  if (!found) {
    if (offline()) return ok_status();
    auto pulled = pull_with_progress(*name);
    if (!pulled) return pulled.error().annotate(printable(flags.model));
    found = *std::move(pulled);
  }
  const std::string& first = found->files.front();
  if (!first.ends_with(".gguf")) return ok_status();
  if (flags.served_model_names.empty()) flags.served_model_names = {flags.model};
  flags.model = concat(found->snapshot, "/", first);
  return ok_status();
}

}  // namespace pagoda
