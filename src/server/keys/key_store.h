#pragma once
// KeyStore: who may ask, now. Keys come from --api-key and from a file that may change while the server runs;
// a file that is broken then changes nothing. What a key has used, and its rate limit, stay with its name
// over reloads. Without any key everybody is the same anonymous administrator, as on one's own machine.
// Invariants: a check looks at every key and takes the same time whichever matches, or none; only SHA-256 is
// kept. Errors: as key_file.h. Threads: find() and the like from any, also while reload() runs on another.
// Owner: the server. Source: the rule that hashes are compared, and all of them, follows CVE-2025-59425.
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

// State that stays with a key's name.
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

  // Keys of the command line, and a file; either may be empty. One key without a file is an administrator's.
  Status load(const std::vector<std::string>& keys, const std::string& file);
  // Reads the file again. The names that are gone; an error: all stays as it was.
  Result<std::vector<std::string>> reload();
  // Whether the file is another one than was read last, and was the same at the call before this one: it is
  // not being written just now. One thread.
  bool file_has_changed();
  bool has_file() const { return !file_.empty(); }

  bool required() const;
  // Several names: they do not trust each other.
  bool several_tenants() const;
  std::size_t num_keys() const;
  // Null: no key, or none of ours. Never null where no key is required.
  std::shared_ptr<const ApiKey> find(std::string_view key) const;
  // The key of requests over the operator's own socket.
  std::shared_ptr<const ApiKey> operator_key() const { return operator_; }

  // Accounts of every name since the start.
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

// The key of a request's headers: "Bearer KEY" of Authorization, else of x-api-key.
std::string_view key_of(std::string_view authorization, std::string_view x_api_key);

}  // namespace pagoda
