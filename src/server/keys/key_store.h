#pragma once
// KeyStore: the API keys that are valid now. Keys come from --api-key and from a file that may change while
// the server runs; an invalid file leaves the keys unchanged. A key's usage and rate limit belong to its name
// and survive reloads. Without any keys, all clients share one anonymous administrator. Invariants: a lookup
// compares every key and takes the same time whether or not one matches; only SHA-256 hashes are kept.
// Errors: as key_file.h. Threads: any for the const functions, also while reload() runs on another. Owner:
// the server. Source: comparing hashes, and all of them, follows from CVE-2025-59425.
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/status.h"
#include "server/keys/key_entry.h"
#include "server/keys/key_usage.h"
#include "server/keys/rate_limit.h"

namespace pagoda {

// State that belongs to a key's name.
struct KeyAccount {
  KeyAccount(MetricsRegistry& registry, std::string key_name)
      : name(std::move(key_name)), usage(registry, name) {}
  const std::string name;
  KeyUsage usage;
  RateLimit limit;
};

struct ApiKey {
  KeyEntry entry;
  std::shared_ptr<KeyAccount> account;
};

class KeyStore {
 public:
  // Borrows both.
  KeyStore(MetricsRegistry& registry, const Clock& clock);

  // Loads keys of the command line and a file; either may be empty. A single key without a file is an
  // administrator's.
  Status load(const std::vector<std::string>& keys, const std::string& file);
  // Reads the file again. Returns the names that were removed. On an error, nothing changes.
  Result<std::vector<std::string>> reload();
  // True if the file differs from the one read last and has not changed since the previous call, i.e. is not
  // being written. Call on one thread only.
  bool file_has_changed();
  bool has_file() const { return !file_.empty(); }

  bool required() const;
  // True if there are several names, which do not trust each other.
  bool several_tenants() const;
  std::size_t num_keys() const;
  // Null if the key is empty or unknown. Never null if no key is required.
  std::shared_ptr<const ApiKey> find(std::string_view key) const;
  // The key of requests over the admin socket.
  std::shared_ptr<const ApiKey> operator_key() const { return operator_; }

  // Accounts of all names since startup.
  std::vector<std::shared_ptr<const KeyAccount>> accounts() const;

 private:
  struct Ring {
    std::vector<std::shared_ptr<const ApiKey>> keys;
    std::vector<std::pair<KeyDigest, std::size_t>> digests;  // digests of keys[i]
  };
  struct FileIdentity {
    std::int64_t size = -1, mtime_ns = 0, inode = 0;
    bool operator==(const FileIdentity&) const = default;
  };
  Result<std::vector<std::string>> install(std::vector<KeyEntry> entries);
  std::shared_ptr<const ApiKey> make_key(KeyEntry entry);
  FileIdentity identity() const;
  std::shared_ptr<const Ring> ring() const;

  MetricsRegistry& registry_;
  const Clock& clock_;
  std::string file_;
  std::vector<KeyEntry> fixed_;  // from the command line
  FileIdentity read_, seen_;
  std::shared_ptr<const ApiKey> anonymous_, operator_;

  mutable std::mutex mutex_;
  std::shared_ptr<const Ring> ring_;                             // guarded by mutex_
  std::map<std::string, std::shared_ptr<KeyAccount>> accounts_;  // guarded by mutex_
};

// The key in a request's headers: from "Bearer KEY" in Authorization, else from x-api-key.
std::string_view key_of(std::string_view authorization, std::string_view x_api_key);

}  // namespace pagoda
