#include "server/keys/key_store.h"

#include <openssl/crypto.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>

#include "base/ascii.h"
#include "base/strings.h"
#include "server/http_request.h"
#include "server/keys/key_file.h"

namespace pagoda {

KeyStore::KeyStore(MetricsRegistry& registry, const Clock& clock)
    : registry_(registry), clock_(clock), ring_(std::make_shared<Ring>()) {
  const auto of_nobody = [](std::string_view name) {
    KeyEntry entry;
    entry.name = name;
    entry.role = Role::admin;
    return entry;
  };
  // Keys for requests when no keys are configured, and for the admin socket. Both are administrators.
  anonymous_ = make_key(of_nobody(kAnonymous));
  operator_ = make_key(of_nobody(kAdminSocket));
}

std::shared_ptr<const ApiKey> KeyStore::make_key(KeyEntry entry) {
  std::shared_ptr<KeyAccount>& account = accounts_[entry.name];
  if (account == nullptr) account = std::make_shared<KeyAccount>(registry_, entry.name);
  account->limit.set(entry.requests_per_minute, entry.tokens_per_minute, clock_.now());
  return std::make_shared<const ApiKey>(ApiKey{.entry = std::move(entry), .account = account});
}

Status KeyStore::load(const std::vector<std::string>& keys, const std::string& file) {
  file_ = file;
  const bool alone = keys.size() == 1 && file.empty();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    KeyEntry entry;
    entry.name = alone ? "api-key" : concat("api-key-", i + 1);
    entry.digests = {digest_of_key(keys[i])};
    entry.role = alone ? Role::admin : Role::user;
    if (!alone) entry.max_priority = 0;
    fixed_.push_back(std::move(entry));
  }
  if (const auto loaded = reload(); !loaded) return loaded.error();
  return ok_status();
}

Result<std::vector<std::string>> KeyStore::reload() {
  std::vector<KeyEntry> entries;
  if (has_file()) {
    const FileIdentity before = identity();
    seen_ = read_ = before;
    Result<std::vector<KeyEntry>> read = read_key_file(file_);
    if (!read) return read.error();
    entries = *std::move(read);
  }
  entries.insert(entries.begin(), fixed_.begin(), fixed_.end());
  return install(std::move(entries));
}

Result<std::vector<std::string>> KeyStore::install(std::vector<KeyEntry> entries) {
  auto ring = std::make_shared<Ring>();
  std::set<std::string> names;
  for (const KeyEntry& entry : entries)
    if (!names.insert(entry.name).second)
      return invalid_argument(concat(file_, ": the name '", entry.name, "' is used by an --api-key"));
  std::lock_guard lock(mutex_);
  for (KeyEntry& entry : entries) {
    for (const KeyDigest& digest : entry.digests) ring->digests.emplace_back(digest, ring->keys.size());
    ring->keys.push_back(make_key(std::move(entry)));
  }
  std::vector<std::string> gone;
  for (const auto& key : ring_->keys)
    if (!names.contains(key->entry.name)) gone.push_back(key->entry.name);
  ring_ = std::move(ring);
  return gone;
}

KeyStore::FileIdentity KeyStore::identity() const {
  struct stat info{};
  if (::stat(file_.c_str(), &info) != 0) return {};
  constexpr std::int64_t kNs = 1'000'000'000;
  return {.size = info.st_size,
          .mtime_ns = info.st_mtim.tv_sec * kNs + info.st_mtim.tv_nsec,
          .inode = static_cast<std::int64_t>(info.st_ino)};
}

bool KeyStore::file_has_changed() {
  if (!has_file()) return false;
  const FileIdentity before = std::exchange(seen_, identity());
  return seen_ == before && seen_ != read_;
}

std::shared_ptr<const KeyStore::Ring> KeyStore::ring() const {
  std::lock_guard lock(mutex_);
  return ring_;
}

bool KeyStore::required() const { return !ring()->keys.empty(); }
bool KeyStore::several_tenants() const { return ring()->keys.size() > 1; }
std::size_t KeyStore::num_keys() const { return ring()->keys.size(); }

std::shared_ptr<const ApiKey> KeyStore::find(std::string_view key) const {
  const std::shared_ptr<const Ring> ring = this->ring();
  if (ring->keys.empty()) return anonymous_;
  const KeyDigest given = digest_of_key(key);
  std::size_t found = ring->keys.size();
  for (const auto& [known, index] : ring->digests) {
    const bool same = CRYPTO_memcmp(given.data(), known.data(), given.size()) == 0;
    found = same ? index : found;
  }
  return found < ring->keys.size() && !key.empty() ? ring->keys[found] : nullptr;
}

std::vector<std::shared_ptr<const KeyAccount>> KeyStore::accounts() const {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<const KeyAccount>> out;
  for (const auto& [name, account] : accounts_) out.push_back(account);
  return out;
}

std::string_view key_of(std::string_view authorization, std::string_view x_api_key) {
  if (authorization.empty()) return x_api_key;
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() < kScheme.size()) return {};
  const bool bearer = std::equal(kScheme.begin(), kScheme.end(), authorization.begin(),
                                 [](char a, char b) { return a == lower(b); });
  return bearer ? authorization.substr(kScheme.size()) : std::string_view();
}

}  // namespace pagoda
