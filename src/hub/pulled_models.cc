// Finds, lists and removes the models that pull() put into the cache.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <tuple>

#include "base/strings.h"
#include "hub/choose_files.h"
#include "hub/pull.h"
#include "hub/repository_folder.h"

namespace pagoda {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "models--";

// The total size of the regular files in a folder's blobs; does not follow links.
std::int64_t blob_bytes(const fs::path& root, bool& incomplete) {
  std::int64_t bytes = 0;
  std::error_code error;
  for (fs::directory_iterator each(root / "blobs", error), end; !error && each != end;
       each.increment(error)) {
    std::error_code gone;
    if (each->is_symlink(gone) || !each->is_regular_file(gone)) continue;
    incomplete = incomplete || each->path().extension() == ".incomplete";
    if (const auto size = each->file_size(gone); !gone) bytes += static_cast<std::int64_t>(size);
  }
  return bytes;
}

std::int64_t seconds_of(fs::file_time_type time) {
  using std::chrono::seconds;
  return std::chrono::duration_cast<seconds>(std::chrono::file_clock::to_sys(time).time_since_epoch())
      .count();
}

// The files below a snapshot whose blobs exist.
std::vector<std::string> files_below(const fs::path& snapshot) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::recursive_directory_iterator each(snapshot, error), end; !error && each != end;
       each.increment(error)) {
    std::error_code dangling;
    if (each->is_regular_file(dangling)) files.push_back(each->path().lexically_relative(snapshot).string());
  }
  std::ranges::sort(files);
  return files;
}

void add_file(CachedModel& model, const fs::path& path) {
  std::error_code error;
  if (const auto size = fs::file_size(path, error); !error) model.bytes += static_cast<std::int64_t>(size);
  if (const auto time = fs::last_write_time(path, error); !error)
    model.modified = std::max(model.modified, seconds_of(time));
}

// Adds one entry per model of the repository; at least one, so that remains of a download are listed.
void list_repository(const std::string& name, const fs::path& root, std::vector<CachedModel>& models) {
  std::map<std::string, CachedModel> found;  // by tag
  std::error_code error;
  for (fs::directory_iterator each(root / "snapshots", error), end; !error && each != end;
       each.increment(error)) {
    const std::vector<std::string> files = files_below(each->path());
    const bool whole =
        std::ranges::any_of(files, [](const std::string& file) { return file.ends_with(".safetensors"); });
    std::map<std::string, CachedModel> here;
    for (const std::string& file : files) {
      const bool gguf = file.ends_with(".gguf");
      if (!gguf && !whole) continue;
      CachedModel& model = here[gguf ? tag_of(file) : std::string()];
      if (model.path.empty()) model.path = gguf ? (each->path() / file).string() : each->path().string();
      model.type = gguf ? "gguf" : "safetensors";
      add_file(model, each->path() / file);
    }
    // Keeps the newest of several revisions.
    for (auto& [tag, model] : here)
      if (!found.contains(tag) || found[tag].modified < model.modified) found[tag] = std::move(model);
  }
  bool incomplete = false;
  const std::int64_t bytes = blob_bytes(root, incomplete);
  if (found.empty()) found[""].bytes = bytes;
  for (auto& [tag, model] : found) {
    model.name = name;
    model.tag = tag;
    model.incomplete = incomplete;
    models.push_back(std::move(model));
  }
}

// True if any snapshot links to the blob: other snapshots or models may use the same bytes.
bool is_linked(const fs::path& root, const fs::path& blob) {
  std::error_code error;
  for (fs::recursive_directory_iterator each(root / "snapshots", error), end; !error && each != end;
       each.increment(error)) {
    std::error_code other;
    if (fs::equivalent(each->path(), blob, other)) return true;
  }
  return false;
}

Result<std::int64_t> remove_tag(const RepositoryFolder& folder, const PullName& name) {
  std::vector<std::string> tried;
  const auto snapshot =
      find_in_hub_cache(name.name, {{fs::path(folder.root()).parent_path().string()}}, tried);
  if (!snapshot) return not_found(concat(name.name.repository, " is incomplete: remove all of it"));
  const auto chosen = choose_files(files_below(*snapshot), name.tag);
  if (!chosen) return chosen.error();
  std::int64_t bytes = 0;
  for (const std::string& file : *chosen) {
    const fs::path link = fs::path(*snapshot) / file;
    std::error_code error;
    const fs::path blob = fs::canonical(link, error);
    const auto size = fs::file_size(blob, error);
    fs::remove(link, error);
    if (error) return internal_error(concat("cannot remove ", link.string(), ": ", error.message()));
    if (is_linked(folder.root(), blob)) continue;
    fs::remove(blob, error);
    bytes += static_cast<std::int64_t>(size);
  }
  return bytes;
}

}  // namespace

std::optional<Pulled> find_pulled(const PullName& name, const std::string& cache) {
  std::vector<std::string> tried;
  const auto snapshot = find_in_hub_cache(name.name, {{cache}}, tried);
  if (!snapshot) return std::nullopt;
  auto chosen = choose_files(files_below(*snapshot), name.tag);
  if (!chosen) return std::nullopt;
  return Pulled{.snapshot = *snapshot, .files = *std::move(chosen)};
}

std::vector<CachedModel> list_pulled(const std::string& cache) {
  std::vector<CachedModel> models;
  std::error_code error;
  for (fs::directory_iterator each(cache, error), end; !error && each != end; each.increment(error)) {
    std::string name = each->path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    name.erase(0, kPrefix.size());
    if (const std::size_t slash = name.find("--"); slash != name.npos) name.replace(slash, 2, "/");
    if (!parse_hub_name(name)) continue;
    list_repository(name, each->path(), models);
  }
  std::ranges::sort(models, {}, [](const CachedModel& model) { return std::tie(model.name, model.tag); });
  return models;
}

Result<std::int64_t> remove_pulled(const PullName& name, const std::string& cache) {
  const std::string& repository = name.name.repository;
  const RepositoryFolder folder(cache, repository);
  std::error_code error;
  if (!fs::exists(fs::symlink_status(folder.root(), error)))
    return not_found(concat(repository, " is not in ", cache));
  std::int64_t bytes = 0;
  if (!name.tag.empty()) {
    const auto removed = remove_tag(folder, name);
    if (!removed) return removed.error();
    bytes = *removed;
    std::vector<CachedModel> left;
    list_repository(repository, folder.root(), left);
    if (!left.front().type.empty()) return bytes;
  }
  bool incomplete = false;
  bytes += blob_bytes(folder.root(), incomplete);
  // References first, so that a partly removed model is not found.
  fs::remove_all(folder.root() + "/refs", error);
  fs::remove_all(folder.root(), error);
  if (error) return internal_error(concat("cannot remove ", folder.root(), ": ", error.message()));
  fs::remove_all(folder.locks(), error);
  return bytes;
}

}  // namespace pagoda
