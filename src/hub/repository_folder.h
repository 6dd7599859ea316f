#pragma once
// RepositoryFolder: the paths of one repository in the local cache (pull.h has the layout), and what is made
// there. Not the way to find a model: loader/hub_cache.h is. Errors: internal where the disk refuses.
// Threads: one.
#include <string>

#include "base/status.h"

namespace pagoda {

class RepositoryFolder {
 public:
  // `repository`: as parse_hub_name() lets it through.
  RepositoryFolder(const std::string& cache, std::string repository);

  const std::string& root() const { return root_; }
  const std::string& locks() const { return locks_; }
  std::string blob(const std::string& etag) const { return root_ + "/blobs/" + etag; }
  std::string incomplete(const std::string& etag) const { return blob(etag) + ".incomplete"; }
  std::string lock(const std::string& etag) const { return locks_ + "/" + etag + ".lock"; }
  std::string snapshot(const std::string& commit) const { return root_ + "/snapshots/" + commit; }

  Status make() const;
  // snapshots/COMMIT/FILE, a relative link to the blob, so that the cache may be moved.
  Status link(const std::string& commit, const std::string& file, const std::string& etag) const;
  Status write_ref(const std::string& revision, const std::string& commit) const;

 private:
  std::string root_, locks_;
};

}  // namespace pagoda
