#include "kv_store/disk_tier.h"

#include <algorithm>
#include <limits>
#include <unordered_set>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "kv_store/disk_files.h"

namespace pagoda {

Result<std::unique_ptr<DiskTier>> DiskTier::open(DiskTierConfig config, const Clock& clock,
                                                 MetricsRegistry& metrics) {
  auto files = DiskFiles::open(config.path, DiskFiles::Lock::taken);
  if (!files) return files.error();
  constexpr int kScanThreads = 16;
  config.store.scan_threads = kScanThreads;
  auto store = SegmentStore::open(*std::move(files), config.store, clock);
  if (!store) return store.error();
  auto tier = std::make_unique<DiskTier>(*std::move(store), config.fingerprint, std::move(config.label));
  tier->count_in(metrics);
  return tier;
}

DiskTier::Metrics::Metrics(MetricsRegistry& r)
    : bytes(r.gauge("pagoda:kv_disk_bytes", "Bytes of the files of --kv-disk.")),
      rows(r.gauge("pagoda:kv_disk_blocks", "Number of blocks that can be found on disk.")),
      hits(r.counter("pagoda:kv_disk_hits", "Number of blocks read from disk.")),
      bytes_read(r.counter("pagoda:kv_disk_read_bytes", "Bytes of K/V read from disk.")),
      bytes_written(r.counter("pagoda:kv_disk_written_bytes", "Bytes of K/V written to disk.")),
      evicted(r.counter("pagoda:kv_disk_evicted_blocks", "Number of blocks removed to make room.")),
      erased(r.counter("pagoda:kv_disk_erased_blocks",
                       "Number of blocks erased with their session, their key or the prefix cache.")),
      refused(r.counter("pagoda:kv_disk_refused_blocks",
                        "Number of blocks not written: no room, or more than may be written in an hour.")),
      errors(r.counter("pagoda:kv_disk_errors",
                       "Number of failed writes, and of blocks that did not come back as they were.")) {}

void DiskTier::count_in(MetricsRegistry& metrics) {
  metrics_.emplace(metrics);
  count();
}

void DiskTier::count() {
  const std::lock_guard lock(metrics_mutex_);
  if (!metrics_) return;
  const SegmentStoreStats now = store_->stats(), seen = std::exchange(metrics_->seen, now);
  const auto add = [](Counter& counter, std::int64_t more) { counter.add(static_cast<double>(more)); };
  metrics_->bytes.set(static_cast<double>(now.bytes));
  metrics_->rows.set(static_cast<double>(now.rows));
  add(metrics_->hits, now.hits - seen.hits);
  add(metrics_->bytes_read, now.bytes_read - seen.bytes_read);
  add(metrics_->bytes_written, now.bytes_written - seen.bytes_written);
  add(metrics_->evicted, now.evicted_rows - seen.evicted_rows);
  add(metrics_->erased, now.erased_rows - seen.erased_rows);
  add(metrics_->refused, now.refused - seen.refused);
  add(metrics_->errors, now.failed_writes + now.lost - seen.failed_writes - seen.lost);
}

DiskTier::DiskTier(std::unique_ptr<SegmentStore> store, KvDigest fingerprint, std::string label)
    : store_(std::move(store)), fingerprint_(fingerprint), label_(std::move(label)) {}

KvKey DiskTier::key_of(const TierKey& key) const {
  return {.fingerprint = fingerprint_, .hash = key.chain, .group = key.group};
}

void DiskTier::each_key(const std::function<void(const TierKey&, const CacheOwner&)>& f) const {
  store_->each_key([&](const KvKey& key, const CacheOwner& owner) {
    if (key.fingerprint == fingerprint_) f({.chain = key.hash, .group = key.group}, owner);
  });
}

bool DiskTier::lookup(const TierKey& key) const { return store_->contains(key_of(key)); }

bool DiskTier::fetch(const TierRow& row, std::span<std::byte> bytes) {
  const bool hit = store_->fetch(key_of(row.key), row.tokens, bytes) == KvFetched::hit;
  count();
  return hit;
}

bool DiskTier::store(const TierRow& row, std::span<const std::byte> bytes, std::vector<TierKey>& gone) {
  constexpr double kMsPerSecond = 1000, kMost = std::numeric_limits<std::uint32_t>::max();
  Waiting mine{
      .row = {.key = key_of(row.key),
              .tokens = row.tokens,
              .bytes = bytes,
              .cost_ms = static_cast<std::uint32_t>(std::clamp(row.compute_s * kMsPerSecond, 0.0, kMost)),
              .owner = row.owner,
              .use = row.use}};
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
  count();
  std::vector<TierKey> lost;
  for (const KvKey& key : dropped)
    if (key.fingerprint == fingerprint_) lost.push_back({.chain = key.hash, .group = key.group});
  gone.insert(gone.end(), lost.begin(), lost.end());
  for (std::size_t i = 0; i < batch.size(); ++i)
    batch[i]->kept = stored[i] == KvStored::stored || stored[i] == KvStored::present;
  tell(batch, lost);
  lock.lock();
  for (Waiting* one : batch) one->written = true;
  writing_ = false;
  changed_.notify_all();
  return mine.kept;
}

void DiskTier::listen(const void* engine, RowListener listener) {
  const std::lock_guard lock(listeners_mutex_);
  std::erase_if(listeners_, [&](const auto& entry) { return entry.first == engine; });
  if (listener) listeners_.emplace_back(engine, std::move(listener));
}

// A single engine needs no notification: it learns of changes from its own calls.
void DiskTier::tell(std::span<const Waiting* const> written, std::span<const TierKey> gone) {
  const std::lock_guard lock(listeners_mutex_);
  if (listeners_.size() < 2) return;
  for (const auto& [engine, listener] : listeners_) {
    for (const Waiting* one : written)
      if (one->kept)
        listener({.chain = one->row.key.hash, .group = one->row.key.group}, one->row.owner, true);
    for (const TierKey& key : gone) listener(key, {}, false);
  }
}

void DiskTier::touch(const TierRow& row) { store_->touch(key_of(row.key), row.use); }

Status DiskTier::erase(const TierErase& what) {
  std::unordered_set<TierKey, TierKeyHasher> found;
  each_key([&](const TierKey& key, const CacheOwner&) { found.insert(key); });
  const auto erased = store_->erase([&](const KvKey& key, const CacheOwner& owner) {
    const TierKey name{.chain = key.hash, .group = key.group};
    if (key.fingerprint == fingerprint_ && what.keys.contains(name)) return true;
    const bool known = key.fingerprint == fingerprint_ && found.contains(name);
    return !known && what.owner.covers(owner);
  });
  count();
  return erased ? ok_status() : erased.error();
}

void DiskTier::erase_all() {
  if (const auto erased = store_->erase([](const KvKey&, const CacheOwner&) { return true; }); !erased)
    log_error("kv", concat("K/V on disk cannot be erased: ", erased.error().message()));
  count();
}

}  // namespace pagoda
