#pragma once
// HubClient: what the hub is asked: a repository's files, what a file is, a file's bytes from a place on.
// Follows at most five redirects and sends the token to the endpoint's own origin only. Tries nothing twice:
// pull.h does.
// Units: bytes. Errors: unavailable and resource_exhausted (429) where trying again may help, with the wait
// that the hub asks for in `retry_after_s`; all others where it cannot. Threads: one. Bounds: a list of 16
// MiB and 10000 files. Source: the HTTP conventions of huggingface_hub (X-Repo-Commit, X-Linked-Etag,
// X-Linked-Size, HF_ENDPOINT).
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "hub/http_call.h"

namespace pagoda {

struct HubRepository {
  std::string commit;
  std::vector<std::string> files = {};
};

struct HubFile {
  std::string etag;  // names the blob in the cache: letters, digits, '-', '_' and '.' only
  std::int64_t size = 0;
};

class HubClient {
 public:
  // invalid_argument: an endpoint that is no URL, a token that cannot be a header.
  static Result<HubClient> create(const std::string& endpoint, const std::string& token);

  Result<HubRepository> repository(const std::string& name, const std::string& revision);
  Result<HubFile> describe(const std::string& name, const std::string& commit, const std::string& file);
  // Pieces of `file` from byte `from` on. `start` is told first where they begin: at `from`, or at 0 where
  // the hub knows no ranges.
  Status fetch(const std::string& name, const std::string& commit, const std::string& file, std::int64_t from,
               const std::function<Status(std::int64_t)>& start,
               const std::function<Status(std::string_view)>& piece);

  // Retry-After of the last call that failed; 0: none.
  int retry_after_s() const { return retry_after_s_; }

 private:
  HubClient(Url endpoint, std::string token) : endpoint_(std::move(endpoint)), token_(std::move(token)) {}
  std::string base() const;
  // With redirects; `taker` sees only the answer at their end. `heads`, where given, gets every answer's
  // headers.
  Result<HttpHead> get(HttpCall get, const BodyTaker& taker, std::vector<HttpHead>* heads = nullptr);

  Url endpoint_;
  std::string token_;
  int retry_after_s_ = 0;
};

}  // namespace pagoda
