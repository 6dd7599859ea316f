#pragma once
// DiskTier: a SegmentStore as a KvTier (--kv-disk): rows of one fingerprint, found again by the next process
// that computes with the same bits. Rows that several threads store at the same time are written and synced
// together. It decides nothing: which rows are worth writing, the engine does.
// Threads: any; store() and fetch() block on the disk, lookup() does not.
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kv_store/segment_store.h"
#include "request/kv_tier.h"

namespace pagoda {

struct DiskTierConfig {
  std::string path;
  SegmentStoreConfig store;
  KvDigest fingerprint{};
  std::string label;  // the model, for `pagoda kv list`
};

class DiskTier final : public KvTier {
 public:
  // Makes the folder if it is missing. Errors as DiskFiles::open.
  static Result<std::unique_ptr<DiskTier>> open(DiskTierConfig config, const Clock& clock);
  // Over other files: for tests.
  DiskTier(std::unique_ptr<SegmentStore> store, KvDigest fingerprint, std::string label);

  std::string_view medium() const override { return "DISK"; }
  void each_key(const std::function<void(const TierKey&)>& f) const override;
  bool lookup(const TierKey& key) const override;
  [[nodiscard]] bool fetch(const TierRow& row, std::span<std::byte> bytes) override;
  [[nodiscard]] bool store(const TierRow& row, std::span<const std::byte> bytes,
                           std::vector<TierKey>& gone) override;
  void touch(const TierRow& row) override;
  // Rows of every fingerprint: texts of other models, and of other builds of this one, are here, too.
  void erase_all() override;

  SegmentStoreStats stats() const { return store_->stats(); }

 private:
  struct Waiting {
    KvRow row;
    bool written = false, kept = false;
  };
  KvKey key_of(const TierKey& key) const;

  const std::unique_ptr<SegmentStore> store_;
  const KvDigest fingerprint_;
  const std::string label_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Waiting*> waiting_;
  bool writing_ = false;  // one of the waiting threads writes for all
};

}  // namespace pagoda
