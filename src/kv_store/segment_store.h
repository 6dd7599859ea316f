#pragma once
// SegmentStore: a persistent cache of K/V rows in the files of one folder. It may lose any row at any time
// and reports that as a miss, but it never returns bytes other than those stored under the key.
//     store: batch -> written and synced at the end of the newest segment -> visible to lookups
//     space: the least recently used segment is removed. Its recently used rows move to the newest segment,
//     and a row that was last used before the evicted rows is refused.
// Invariants: a visible row has been synced; files take at most max_bytes; when erase() returns, no copy of
// the erased rows is left on disk, and no crash brings one back. Every row has a checksum, and its tokens are
// compared on a hit. This is no defence against an attacker with write access to the folder.
// Threads: any; reads run concurrently with each other and with one writer.
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "kv_store/segment_index.h"
#include "kv_store/write_allowance.h"

namespace pagoda {

struct SegmentStoreConfig {
  std::int64_t max_bytes = 0;
  std::int64_t segment_bytes = 0;  // approximate size of a file; 0: a fraction of max_bytes
  std::int64_t max_write_bytes_per_hour = WriteAllowance::kUnbounded;
  int scan_threads = 1;  // threads that read headers in parallel in open(): disks serve many reads at once
};

struct SegmentStoreStats {
  std::int64_t rows = 0, bytes = 0, segments = 0;  // current values
  // Totals since open(). Lost: the disk did not return what was stored.
  std::int64_t hits = 0, misses = 0, lost = 0, refused = 0, evicted_rows = 0, erased_rows = 0,
               failed_writes = 0;
  std::int64_t bytes_written = 0, bytes_read = 0;
};

enum class KvStored { stored, present, refused, failed };  // present: the row was stored already
enum class KvFetched { hit, miss, lost };

class SegmentStore {
 public:
  // Indexes the existing segments and removes those without any complete batch. Returns the errors of listing
  // the folder; a file that cannot be read counts as empty.
  static Result<std::unique_ptr<SegmentStore>> open(std::unique_ptr<FileLayer> files,
                                                    const SegmentStoreConfig& config, const Clock& clock);

  // Without I/O. `f` must not call this store.
  bool contains(const KvKey& key) const;
  void each_key(const std::function<void(const KvKey&, const CacheOwner&)>& f) const;

  // Returns the outcome for each row. Refused: no space, over the write limit, or in the pause after a failed
  // write. `label` is the model's name for display. All rows must have the same fingerprint. Appends the keys
  // of the rows evicted for them to `gone` unless it is null.
  std::vector<KvStored> store(std::span<const KvRow> rows, std::string_view label,
                              std::vector<KvKey>* gone = nullptr);
  // On a hit `out` holds the bytes of the row; otherwise its contents are unspecified. Fastest if `out` is
  // aligned to 4096 bytes.
  KvFetched fetch(const KvKey& key, std::span<const TokenId> tokens, std::span<std::byte> out);
  // Records a use of the row that did not fetch it from here; `use` as in KvRow::use.
  void touch(const KvKey& key, std::uint64_t use = 0);
  // Erases the selected rows and returns how many lookups found before. `which` is called for every row in
  // the files, possibly several times, and must not call this store. Fails if a file could be neither cleared
  // nor removed.
  Result<std::int64_t> erase(const KvRowFilter& which);

  SegmentStoreStats stats() const;
  void check_invariants() const;  // for tests

 private:
  SegmentStore(std::unique_ptr<FileLayer> files, const SegmentStoreConfig& config, const Clock& clock);

  // All of these require writer_ to be locked.
  void adopt(const StoredFileInfo& info, std::uint64_t number, std::optional<SegmentScan> scan);
  KvStored append(SegmentBatch batch, std::span<const std::span<const std::byte>> bytes,
                  std::span<const std::uint64_t> uses);
  Status begin_segment();
  void cut_newest(std::uint64_t end);
  void seal_newest();
  bool make_space(std::uint64_t bytes);
  bool evict_segment();
  Status remove(std::uint64_t number);
  Status clear_rows(Segment& segment, const KvRowFilter& which);
  std::uint64_t total_bytes() const;
  bool has(const KvRow& row) const;
  std::uint64_t time_of(std::uint64_t use);
  struct OpenFile {
    std::uint64_t segment = 0;
    std::shared_ptr<const StoredFile> file;
  };
  // Returns the segment's file for reading; the most recently opened files stay open. Null if it cannot be
  // opened.
  std::shared_ptr<const StoredFile> readable(std::uint64_t segment);

  const std::unique_ptr<FileLayer> files_;
  const SegmentStoreConfig config_;
  const Clock& clock_;
  std::mutex writer_;  // locked before mutex_
  WriteAllowance allowance_;
  std::unique_ptr<StoredFile> newest_file_;  // null: the next batch begins a new segment
  Segment* newest_ = nullptr;
  std::uint64_t next_number_ = 1;
  bool removed_ = false;        // files were removed since the folder was last synced
  std::vector<KvKey> dropped_;  // keys of rows whose file was removed
  std::optional<TimeNs> failed_at_;
  std::uint64_t evicted_use_ = 0;  // the median use of the segment evicted last

  mutable std::mutex mutex_;  // never held during I/O
  SegmentIndex index_;
  std::uint64_t opened_at_ = 0;    // the latest use among the rows found by open()
  std::deque<OpenFile> readable_;  // most recently opened first
  SegmentStoreStats stats_;
};

}  // namespace pagoda
