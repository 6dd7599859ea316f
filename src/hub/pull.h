#pragma once
// pull(): fetches a model from the hub into the local cache, which is shared with huggingface_hub; also lists
// and removes models.
//   CACHE/models--ORG--NAME/blobs/ETAG, ETAG.incomplete   the bytes; locked by .locks/…/ETAG.lock (flock)
//   CACHE/models--ORG--NAME/snapshots/COMMIT/FILE         a link to its blob
//   CACHE/models--ORG--NAME/refs/REVISION                 the commit; written last, for a complete model only
// Invariant: a blob gets its final name only after its size and SHA-256 (files in git: git's SHA-1) are
// verified. Errors: not_found lists the existing files; resource_exhausted: not enough disk space;
// corrupt_data: the received bytes differ from those announced; unavailable: kTries consecutive attempts
// without progress. Reads no environment. Threads: one. Source: "Understand caching" of huggingface_hub.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "loader/hub_cache.h"

namespace pagoda {

struct PullName {
  HubName name;
  std::string tag;  // TAG of ORG/NAME:TAG; may be empty
};

// Parses "ORG/NAME[@REV][:TAG]", or any name that hub/short_names.h expands to one.
std::optional<PullName> parse_pull_name(std::string_view text);

struct PullSettings {
  std::string endpoint;
  std::string token;  // empty: none
  std::string cache;  // the folder that contains models--ORG--NAME
  // Called when `done` of `total` bytes of a file are available.
  std::function<void(const std::string& file, std::int64_t done, std::int64_t total)> progress;
  // Called with a message when something is retried or already present.
  std::function<void(const std::string& line)> note;
};

struct Pulled {
  std::string snapshot;  // the snapshot's folder
  // This model's files, relative to it; for a split GGUF model the first part comes first.
  std::vector<std::string> files;
};

Result<Pulled> pull(const PullName& name, const PullSettings& settings);

// The files of a pulled model; nullopt if it is not in the cache, or incomplete.
std::optional<Pulled> find_pulled(const PullName& name, const std::string& cache);

// One model in the cache: a repository of safetensors, or one of a repository's GGUF models.
struct CachedModel {
  std::string name;  // ORG/NAME
  // The tag of a GGUF model, such as "Q4_K_M", or its file name if that contains no tag; otherwise empty.
  std::string tag = {};
  std::string type = {};  // "gguf" or "safetensors"; empty if no model file is present
  std::string path = {};  // the path to serve: the first file, or the folder
  std::int64_t bytes = 0;
  std::int64_t modified = 0;  // unix seconds
  bool incomplete = false;    // a download was interrupted, or is still running
};

std::vector<CachedModel> list_pulled(const std::string& cache);

// Removes a whole repository or, with a tag, only the files of that model. Returns the bytes freed; not_found
// if it is not in the cache.
Result<std::int64_t> remove_pulled(const PullName& name, const std::string& cache);

}  // namespace pagoda
