#include "hub/repository_folder.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/strings.h"

namespace pagoda {
namespace {

namespace fs = std::filesystem;

Status refused(const std::string& path, const std::error_code& error) {
  return internal_error(concat("cannot create ", path, ": ", error.message()));
}

}  // namespace

RepositoryFolder::RepositoryFolder(const std::string& cache, std::string repository) {
  if (const std::size_t slash = repository.find('/'); slash != repository.npos)
    repository.replace(slash, 1, "--");
  root_ = concat(cache, "/models--", repository);
  locks_ = concat(cache, "/.locks/models--", repository);
}

Status RepositoryFolder::make() const {
  for (const std::string& path : {root_ + "/blobs", root_ + "/refs", root_ + "/snapshots", locks_}) {
    std::error_code error;
    fs::create_directories(path, error);
    if (error) return refused(path, error);
  }
  return ok_status();
}

Status RepositoryFolder::link(const std::string& commit, const std::string& file,
                              const std::string& etag) const {
  const fs::path path = fs::path(snapshot(commit)) / file;
  std::string target = "../../blobs/" + etag;
  for (auto deeper = std::ranges::count(file, '/'); deeper > 0; --deeper) target.insert(0, "../");
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) return refused(path.parent_path().string(), error);
  // Created under another name and renamed, so that readers see the old link or the new one.
  const fs::path fresh = path.string() + ".new";
  fs::remove(fresh, error);
  fs::create_symlink(target, fresh, error);
  if (!error) fs::rename(fresh, path, error);
  return error ? refused(path.string(), error) : ok_status();
}

Status RepositoryFolder::write_ref(const std::string& revision, const std::string& commit) const {
  const fs::path path = fs::path(root_) / "refs" / revision;
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) return refused(path.parent_path().string(), error);
  const std::string fresh = path.string() + ".new";
  std::ofstream file(fresh, std::ios::binary | std::ios::trunc);
  file << commit;
  file.close();
  if (!file) return internal_error(concat("cannot write ", fresh));
  fs::rename(fresh, path, error);
  return error ? refused(path.string(), error) : ok_status();
}

}  // namespace pagoda
