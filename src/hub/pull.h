#pragma once
// pull(): fetches a model of the hub into the local cache, which huggingface_hub shares; lists and removes
// models.
//     CACHE/models--ORG--NAME/blobs/ETAG, ETAG.incomplete   the bytes; locked by .locks/…/ETAG.lock (flock)
//     CACHE/models--ORG--NAME/snapshots/COMMIT/FILE         a link to its blob
//     CACHE/models--ORG--NAME/refs/REVISION                 the commit, written last: before, nobody finds
//     the model
// Invariant: a blob has its name only once its size and its SHA-256 (files in git: git's SHA-1) are right.
// Errors: not_found lists the files that exist; resource_exhausted: the disk is too full; corrupt_data: the
// hub sent other bytes than it said; unavailable: kTries attempts in a row without progress. Reads no
// environment. Threads: one. Source: "Understand caching" of huggingface_hub.
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
  std::string tag;  // part of ORG/NAME:TAG; empty: none
};

// "ORG/NAME[@REV][:TAG]", or what hub/short_names.h makes one of.
std::optional<PullName> parse_pull_name(std::string_view text);

struct PullSettings {
  std::string endpoint;
  std::string token;  // empty: none
  std::string cache;  // the folder that holds models--ORG--NAME
  // `done` of `total` bytes of a file are here.
  std::function<void(const std::string& file, std::int64_t done, std::int64_t total)> progress;
  // Something is tried again, or was there already.
  std::function<void(const std::string& line)> note;
};

struct Pulled {
  std::string snapshot;  // its folder
  // This model's files, below it; the first of a GGUF model's parts comes first.
  std::vector<std::string> files;
};

Result<Pulled> pull(const PullName& name, const PullSettings& settings);

// The files of a model that was pulled; nullopt: it is not in the cache, or not whole.
std::optional<Pulled> find_pulled(const PullName& name, const std::string& cache);

// One model of the cache: a repository of safetensors, or one of a repository's GGUF models.
struct CachedModel {
  std::string name;  // ORG/NAME
  // Tag of a GGUF model: "Q4_K_M", or its file where the name has no such word; else empty.
  std::string tag = {};
  std::string type = {};  // "gguf", "safetensors"; empty where nothing of a model is there
  std::string path = {};  // to serve: the first file, or the folder
  std::int64_t bytes = 0;
  std::int64_t modified = 0;  // unix seconds
  bool incomplete = false;    // a download broke off, or goes on
};

std::vector<CachedModel> list_pulled(const std::string& cache);

// All of a repository, or with a tag the files of that model and no more. The bytes that came free; not_found
// where it is not there.
Result<std::int64_t> remove_pulled(const PullName& name, const std::string& cache);

}  // namespace pagoda
