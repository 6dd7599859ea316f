// What pull() has put into the cache: find, list, remove.
#include <algorithm>
#include <filesystem>

#include "base/strings.h"
#include "hub/choose_files.h"
#include "hub/pull.h"
#include "hub/repository_folder.h"

namespace pagoda {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "models--";

// Bytes of the regular files in a folder's blobs; links are not followed.
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

}  // namespace

std::optional<Pulled> find_pulled(const PullName& name, const std::string& cache) {
  std::vector<std::string> tried, files;
  const auto snapshot = find_in_hub_cache(name.name, {{cache}}, tried);
  if (!snapshot) return std::nullopt;
  std::error_code error;
  for (fs::recursive_directory_iterator each(*snapshot, error), end; !error && each != end;
       each.increment(error)) {
    std::error_code dangling;
    if (each->is_regular_file(dangling)) files.push_back(each->path().lexically_relative(*snapshot).string());
  }
  std::ranges::sort(files);
  auto chosen = choose_files(files, name.tag);
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
    CachedModel model{.name = name};
    model.bytes = blob_bytes(each->path(), model.incomplete);
    models.push_back(std::move(model));
  }
  std::ranges::sort(models, {}, &CachedModel::name);
  return models;
}

Result<std::int64_t> remove_pulled(const std::string& repository, const std::string& cache) {
  const RepositoryFolder folder(cache, repository);
  std::error_code error;
  if (!fs::exists(fs::symlink_status(folder.root(), error)))
    return not_found(concat(repository, " is not in ", cache));
  bool incomplete = false;
  const std::int64_t bytes = blob_bytes(folder.root(), incomplete);
  // The references first: what is half removed is not found.
  fs::remove_all(folder.root() + "/refs", error);
  fs::remove_all(folder.root(), error);
  if (error) return internal_error(concat("cannot remove ", folder.root(), ": ", error.message()));
  fs::remove_all(folder.locks(), error);
  return bytes;
}

}  // namespace pagoda
