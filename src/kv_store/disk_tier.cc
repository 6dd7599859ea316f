#include "kv_store/disk_tier.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "kv_store/disk_files.h"

namespace pagoda {

Result<std::unique_ptr<DiskTier>> DiskTier::open(DiskTierConfig config, const Clock& clock) {
  auto files = DiskFiles::open(config.path, DiskFiles::Lock::taken);
  if (!files) return files.error();
  constexpr int kScanThreads = 16;
  config.store.scan_threads = kScanThreads;
  auto store = SegmentStore::open(*std::move(files), config.store, clock);
  if (!store) return store.error();
  return std::make_unique<DiskTier>(*std::move(store), config.fingerprint, std::move(config.label));
}

DiskTier::DiskTier(std::unique_ptr<SegmentStore> store, KvDigest fingerprint, std::string label)
    : store_(std::move(store)), fingerprint_(fingerprint), label_(std::move(label)) {}

KvKey DiskTier::key_of(const TierKey& key) const {
  return {.fingerprint = fingerprint_, .hash = key.chain, .group = key.group};
}

void DiskTier::each_key(const std::function<void(const TierKey&)>& f) const {
  store_->each_key([&](const KvKey& key) {
    if (key.fingerprint == fingerprint_) f({.chain = key.hash, .group = key.group});
  });
}

bool DiskTier::lookup(const TierKey& key) const { return store_->contains(key_of(key)); }

bool DiskTier::fetch(const TierRow& row, std::span<std::byte> bytes) {
  return store_->fetch(key_of(row.key), row.tokens, bytes) == KvFetched::hit;
}

bool DiskTier::store(const TierRow& row, std::span<const std::byte> bytes, std::vector<TierKey>& gone) {
  constexpr double kMsPerSecond = 1000, kMost = std::numeric_limits<std::uint32_t>::max();
  Waiting mine{
      .row = {.key = key_of(row.key),
              .tokens = row.tokens,
              .bytes = bytes,
              .cost_ms = static_cast<std::uint32_t>(std::clamp(row.compute_s * kMsPerSecond, 0.0, kMost))}};
  std::unique_lock lock(mutex_);
  waiting_.push_back(&mine);
  changed_.wait(lock, [&] { return mine.written || !writing_; });
  if (mine.written) return mine.kept;
  writing_ = true;
  const std::vector<Waiting*> batch = std::exchange(waiting_, {});
  lock.unlock();
  std::vector<KvRow> rows;
  for (const Waiting* one : batch) rows.push_back(one->row);
  std::vector<KvKey> dropped;
  const std::vector<KvStored> stored = store_->store(rows, label_, &dropped);
  for (const KvKey& key : dropped)
    if (key.fingerprint == fingerprint_) gone.push_back({.chain = key.hash, .group = key.group});
  lock.lock();
  for (std::size_t i = 0; i < batch.size(); ++i) {
    batch[i]->written = true;
    batch[i]->kept = stored[i] == KvStored::stored || stored[i] == KvStored::present;
  }
  writing_ = false;
  changed_.notify_all();
  return mine.kept;
}

void DiskTier::touch(const TierRow& row) { store_->touch(key_of(row.key)); }

void DiskTier::erase_all() {
  if (const auto erased = store_->erase({}); !erased)
    log_error("kv", concat("K/V on disk cannot be erased: ", erased.error().message()));
}

}  // namespace pagoda
