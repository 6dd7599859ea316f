#pragma once
// SegmentStore: rows of K/V in the files of one folder, found again by the next process. A cache: it may lose
// any row at any time, and says so, but never gives other bytes than those that were stored under a key.
//     store: batch -> written and synced at the end of the newest segment -> found
//     room:  the segment whose rows were used the longest ago is removed; those that were used lately move to
//     the newest, and a row that was used longer ago than those that went is refused
// Invariants: a row that is found was synced before; files take no more than max_bytes; what erase() was
// asked for is on the disk no more when it returns, whatever copies of it there were, and no crash brings it
// back. A checksum covers every row, and its tokens are compared on a hit. Not a defence against someone who
// may write the folder. Threads: any; reads beside each other and beside one writer.
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
  std::int64_t segment_bytes = 0;  // one file, about; 0: a part of max_bytes
  std::int64_t max_write_bytes_per_hour = WriteAllowance::kUnbounded;
  int scan_threads = 1;  // that read headers at the same time when it is opened: a disk answers many at once
};

struct SegmentStoreStats {
  std::int64_t rows = 0, bytes = 0, segments = 0;  // now
  // Since it was opened. Lost: the disk did not give back what was stored.
  std::int64_t hits = 0, misses = 0, lost = 0, refused = 0, evicted_rows = 0, erased_rows = 0,
               failed_writes = 0;
  std::int64_t bytes_written = 0, bytes_read = 0;
};

enum class KvStored { stored, present, refused, failed };  // present: it was there before
enum class KvFetched { hit, miss, lost };

class SegmentStore {
 public:
  // Finds what there is. Segments that hold nothing whole are removed. Errors are the folder's; a file that
  // cannot be read is as good as empty.
  static Result<std::unique_ptr<SegmentStore>> open(std::unique_ptr<FileLayer> files,
                                                    const SegmentStoreConfig& config, const Clock& clock);

  // Without I/O.
  bool contains(const KvKey& key) const;
  void each_key(
      const std::function<void(const KvKey&, const CacheOwner&)>& f) const;  // calls nothing of this

  // How each row ended. Refused: no room, or more than may be written now. `label` names the model for
  // people. The rows have one fingerprint. Appends the keys of rows that went for them to `gone`, if it is
  // not null.
  std::vector<KvStored> store(std::span<const KvRow> rows, std::string_view label,
                              std::vector<KvKey>* gone = nullptr);
  // On a hit `out` is the row's bytes; otherwise it may be anything. Fastest into memory at a multiple of
  // 4096.
  KvFetched fetch(const KvKey& key, std::span<const TokenId> tokens, std::span<std::byte> out);
  // The row was used without being fetched from here: when, as KvRow::use.
  void touch(const KvKey& key, std::uint64_t use = 0);
  // How many of these rows are gone. `which` is asked of every row that is anywhere in the files, again and
  // again, and calls nothing of this. An error: a file could not be cleared, or not removed.
  Result<std::int64_t> erase(const KvRowFilter& which);

  SegmentStoreStats stats() const;
  void check_invariants() const;  // tests call it

 private:
  SegmentStore(std::unique_ptr<FileLayer> files, const SegmentStoreConfig& config, const Clock& clock);

  // All of these are called with writer_ locked.
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
  // A segment's file to read from, of which the latest few stay open. Null: it cannot be opened.
  std::shared_ptr<const StoredFile> readable(std::uint64_t segment);

  const std::unique_ptr<FileLayer> files_;
  const SegmentStoreConfig config_;
  const Clock& clock_;
  std::mutex writer_;  // is locked before mutex_
  WriteAllowance allowance_;
  std::unique_ptr<StoredFile> newest_file_;  // null: the next batch begins a segment
  Segment* newest_ = nullptr;
  std::uint64_t next_number_ = 1;
  bool removed_ = false;        // files, and the folder was not synced since
  std::vector<KvKey> dropped_;  // keys of rows whose file was removed
  std::optional<TimeNs> failed_at_;
  std::uint64_t evicted_use_ = 0;  // the median of the rows that went last

  mutable std::mutex mutex_;  // never held during I/O
  SegmentIndex index_;
  std::uint64_t opened_at_ = 0;    // the latest use of what was found
  std::deque<OpenFile> readable_;  // opened last: first
  SegmentStoreStats stats_;
};

}  // namespace pagoda
