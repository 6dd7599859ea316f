#pragma once
// RepositoryFolder: the paths of one repository in the local cache (pull.h has the layout), and writing to
// them. To find a model, use loader/hub_cache.h. Errors: internal if the disk operation fails. Threads: one.
#include <string>

#include "base/status.h"

namespace pagoda {

class RepositoryFolder {
 public:
  // `repository` must have been accepted by parse_hub_name().
  RepositoryFolder(const std::string& cache, std::string repository);

  const std::string& root() const { return root_; }
  const std::string& locks() const { return locks_; }
  std::string blob(const std::string& etag) const { return root_ + "/blobs/" + etag; }
  std::string incomplete(const std::string& etag) const { return blob(etag) + ".incomplete"; }
  std::string lock(const std::string& etag) const { return locks_ + "/" + etag + ".lock"; }
  std::string snapshot(const std::string& commit) const { return root_ + "/snapshots/" + commit; }

  Status make() const;
  // Creates snapshots/COMMIT/FILE, a relative link to the blob, so that the cache may be moved.
  Status link(const std::string& commit, const std::string& file, const std::string& etag) const;
  Status write_ref(const std::string& revision, const std::string& commit) const;

 private:
  std::string root_, locks_;
};

}  // namespace pagoda
