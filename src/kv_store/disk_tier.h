#pragma once
// DiskTier: a SegmentStore as a KvTier (--kv-disk). It holds rows of one fingerprint, which a later process
// that computes the same bits can reuse. Rows stored by several threads at the same time are written and
// synced together. The engine decides which rows are worth writing. Several engines may share a tier.
// Threads: any; store() and fetch() block on disk I/O, lookup() does not.
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/metrics.h"
#include "kv_store/segment_store.h"
#include "request/kv_tier.h"

namespace pagoda {

struct DiskTierConfig {
  std::string path;
  SegmentStoreConfig store;
  KvDigest fingerprint{};
  std::string label;  // the model's name, shown by `pagoda kv list`
};

class DiskTier final : public KvTier {
 public:
  // Creates the folder if it is missing. Errors as for DiskFiles::open. Borrows `clock` and `metrics`.
  static Result<std::unique_ptr<DiskTier>> open(DiskTierConfig config, const Clock& clock,
                                                MetricsRegistry& metrics);
  // Uses an existing store; for tests.
  DiskTier(std::unique_ptr<SegmentStore> store, KvDigest fingerprint, std::string label);

  std::string_view medium() const override { return "DISK"; }
  void each_key(const std::function<void(const TierKey&, const CacheOwner&)>& f) const override;
  bool lookup(const TierKey& key) const override;
  [[nodiscard]] bool fetch(const TierRow& row, std::span<std::byte> bytes) override;
  [[nodiscard]] bool store(const TierRow& row, std::span<const std::byte> bytes,
                           std::vector<TierKey>& gone) override;
  void touch(const TierRow& row) override;
  // Erases the rows of this fingerprint whose keys are in `what`. Other rows, including copies that no lookup
  // finds any more, are erased by owner.
  Status erase(const TierErase& what) override;
  // Erases the rows of every fingerprint, because the folder also holds texts of other models and other
  // builds.
  void erase_all() override;
  void listen(const void* engine, RowListener listener) override;
  bool outlives_process() const override { return true; }

  SegmentStoreStats stats() const { return store_->stats(); }
  void count_in(MetricsRegistry& metrics);  // starts counting now

 private:
  struct Waiting {
    KvRow row;
    bool written = false, kept = false;
  };
  struct Metrics {
    explicit Metrics(MetricsRegistry& registry);
    Gauge &bytes, &rows;
    Counter &hits, &bytes_read, &bytes_written, &evicted, &erased, &refused, &errors;
    SegmentStoreStats seen = {};
  };
  KvKey key_of(const TierKey& key) const;
  void count();  // updates the metrics
  void tell(std::span<const Waiting* const> written, std::span<const TierKey> gone);

  const std::unique_ptr<SegmentStore> store_;
  const KvDigest fingerprint_;
  const std::string label_;
  std::mutex metrics_mutex_;
  std::optional<Metrics> metrics_;
  std::mutex listeners_mutex_;
  std::vector<std::pair<const void*, RowListener>> listeners_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Waiting*> waiting_;
  bool writing_ = false;  // one of the waiting threads is writing for all of them
};

}  // namespace pagoda
