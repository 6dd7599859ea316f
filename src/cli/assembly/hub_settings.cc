#include "cli/assembly/hub_settings.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "api/api_context.h"
#include "base/strings.h"
#include "cli/assembly/hub_paths.h"
#include "cli/commands/progress_bar.h"
#include "cli/environment_variable.h"
#include "cli/flags/suggest.h"
#include "hub/short_names.h"
#include "loader/mapped_file.h"
#include "loader/model_files.h"
#include "loader/printable.h"

namespace pagoda {
namespace {

std::string variable_or(const char* name, const char* otherwise = "") {
  const std::string value = environment_variable(name);
  return value.empty() ? otherwise : value;
}

bool is_on(const char* name) {
  std::string value = variable_or(name);
  std::ranges::transform(value, value.begin(),
                         [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

bool offline() { return is_on("HF_HUB_OFFLINE"); }

// Looks in the same places as huggingface_hub: the environment, then the file written by `hf auth login`.
std::string token() {
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"})
    if (std::string value = variable_or(name); !value.empty()) return value;
  if (is_on("HF_HUB_DISABLE_IMPLICIT_TOKEN")) return {};
  constexpr std::size_t kMaxBytes = 4096;
  const auto text = read_text_file(hub_token_file_from_environment(), kMaxBytes);
  if (!text) return {};
  const std::size_t first = text->find_first_not_of(" \t\r\n"), last = text->find_last_not_of(" \t\r\n");
  return first == std::string::npos ? std::string() : text->substr(first, last - first + 1);
}

// Treats a word that names no model as a mistyped short name. Paths are left to the loader.
Status check_short_name(const std::string& model) {
  if (model.find('/') != std::string::npos || find_model_files(model, hub_paths_from_environment()))
    return ok_status();
  const std::string hint = nearest_short_name(model);
  if (hint.empty()) return ok_status();
  return not_found(concat("there is no file, folder or model '", printable(model), "'", hint));
}

}  // namespace

std::string nearest_short_name(const std::string& name) {
  std::vector<std::string> known;
  for (const ShortName& row : short_names()) {
    known.emplace_back(row.name);
    known.push_back(concat(row.name, ":", row.size));
  }
  return suggestion(name, known);
}

Result<Pulled> pull_with_progress(const PullName& name, const std::string& given_token) {
  if (offline())
    return unavailable("HF_HUB_OFFLINE is set, so nothing is downloaded: unset it, or specify a local path");
  std::unique_ptr<ProgressBar> bar;
  std::string shown;
  PullSettings settings;
  settings.endpoint = variable_or("HF_ENDPOINT", "https://huggingface.co");
  settings.token = given_token.empty() ? token() : given_token;
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

Result<std::string> local_model(const std::string& model) {
  EngineFlags flags;
  flags.model = model;
  PAGODA_RETURN_IF_ERROR(fetch_if_missing(flags));
  std::error_code error;
  if (const auto name = parse_pull_name(flags.model);
      name && !flags.model.empty() && !std::filesystem::exists(flags.model, error)) {
    if (const auto found = find_pulled(*name, hub_paths_from_environment().cache_dirs.front()))
      return found->snapshot;
  }
  return flags.model;
}

Status fetch_if_missing(EngineFlags& flags) {
  std::error_code error;
  if (flags.model.empty() || std::filesystem::exists(flags.model, error) || flags.mpi_local_size > 0)
    return ok_status();
  auto name = parse_pull_name(flags.model);
  if (!name) return check_short_name(flags.model);
  if (!flags.revision.empty()) {
    name = parse_pull_name(
        concat(name->name.repository, "@", flags.revision, name->tag.empty() ? "" : concat(":", name->tag)));
    if (!name)
      return invalid_argument(
          concat("--revision: '", printable(flags.revision), "' is not a valid branch, tag or commit"));
    if (std::ranges::all_of(flags.served_model_names, is_pattern))
      flags.served_model_names.insert(flags.served_model_names.begin(), flags.model);
    flags.model = concat(name->name.repository, "@", flags.revision);
  } else if (const std::string full = full_name(flags.model); full != flags.model) {
    // A short name is also the served name; an address is not.
    const bool is_short = flags.model.find('/') == std::string::npos;
    if (std::ranges::all_of(flags.served_model_names, is_pattern))
      flags.served_model_names.insert(flags.served_model_names.begin(), is_short ? flags.model : full);
    flags.model = full;
  }
  auto found = find_pulled(*name, hub_paths_from_environment().cache_dirs.front());
  if (!found) {
    if (offline()) return ok_status();
    auto pulled = pull_with_progress(*name, flags.hf_token);
    if (!pulled) return pulled.error().annotate(printable(flags.model));
    found = *std::move(pulled);
  }
  const std::string& first = found->files.front();
  if (!first.ends_with(".gguf")) return ok_status();
  if (std::ranges::all_of(flags.served_model_names, is_pattern))
    flags.served_model_names.insert(flags.served_model_names.begin(), flags.model);
  flags.model = concat(found->snapshot, "/", first);
  return ok_status();
}

}  // namespace pagoda
