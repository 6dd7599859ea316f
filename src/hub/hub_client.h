#pragma once
// HubClient: queries to the hub: a repository's files, a file's metadata, a file's bytes from an offset.
// Follows at most five redirects, and sends the token only to the endpoint's own origin. Never retries:
// pull.h does.
// Units: bytes. Errors: unavailable and resource_exhausted (429) if a retry may help, with the delay
// requested by the hub in `retry_after_s`; other codes if a retry cannot help. Threads: one. Bounds: a list
// of 16 MiB and 10000 files. Source: the HTTP conventions of huggingface_hub (X-Repo-Commit, X-Linked-Etag,
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
  std::string etag;  // the blob's name in the cache: only letters, digits, '-', '_' and '.'
  std::int64_t size = 0;
};

class HubClient {
 public:
  // invalid_argument if the endpoint is not a URL or the token cannot be sent in a header.
  static Result<HubClient> create(const std::string& endpoint, const std::string& token);

  Result<HubRepository> repository(const std::string& name, const std::string& revision);
  Result<HubFile> describe(const std::string& name, const std::string& commit, const std::string& file);
  // Fetches `file` from byte `from` on, in pieces. Calls `start` first with the actual offset: `from`, or 0
  // if the hub does not support ranges.
  Status fetch(const std::string& name, const std::string& commit, const std::string& file, std::int64_t from,
               const std::function<Status(std::int64_t)>& start,
               const std::function<Status(std::string_view)>& piece);

  // Retry-After of the last failed call; 0 if there was none.
  int retry_after_s() const { return retry_after_s_; }

 private:
  HubClient(Url endpoint, std::string token) : endpoint_(std::move(endpoint)), token_(std::move(token)) {}
  std::string base() const;
  // Follows redirects; `taker` sees only the final response. `heads`, if given, receives every response's
  // headers.
  Result<HttpHead> get(HttpCall get, const BodyTaker& taker, std::vector<HttpHead>* heads = nullptr);

  Url endpoint_;
  std::string token_;
  int retry_after_s_ = 0;
};

}  // namespace pagoda
