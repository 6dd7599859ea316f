#pragma once
// SegmentIndex: an in-memory index of the location of each row. It lists every row that is physically in a
// segment, including rows that lookups no longer find (superseded by a newer copy in another segment, or
// unreadable), so that erasing reaches them. Does no I/O.
// Invariant: an indexed row is not erased, and its segment is in segments().
// Threads: one at a time; the store locks.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "kv_store/segment_format.h"

namespace pagoda {

struct Segment {
  std::uint64_t number = 0, bytes = 0;  // bytes: file size
  bool unclear = false;  // a change failed midway, so the file may hold rows that are not listed
  std::vector<SegmentBatch> batches = {};
};

class SegmentIndex {
 public:
  struct Place {
    Segment* segment = nullptr;
    const SegmentRow* row = nullptr;
    std::uint64_t used = 0;  // last use: larger is later
  };

  Segment& add_segment(std::uint64_t number);
  // The batch must follow all others of the segment. Lookups find its rows instead of older copies. `uses`
  // gives the last use of each row; if empty, the rows count as used now, in this order.
  void add_batch(Segment& segment, SegmentBatch batch, std::span<const std::uint64_t> uses = {});
  // Removes the segment. Lookups no longer find its rows.
  void remove_segment(std::uint64_t number);

  // Returns the row with this key and, if `tokens` is given, with these tokens; null on a miss.
  Place* find(const KvKey& key, std::optional<std::span<const TokenId>> tokens = std::nullopt);
  const Place* find(const KvKey& key, std::optional<std::span<const TokenId>> tokens = std::nullopt) const;
  void each_key(const std::function<void(const KvKey&, const CacheOwner&)>& f) const;
  // Removes the row from lookups. False if the key is not indexed, or refers to a row at another place.
  bool forget(const KvKey& key, std::uint64_t segment, std::uint64_t offset);
  // Removes these rows from lookups and returns their number.
  std::int64_t forget(const KvRowFilter& which);
  // Marks these rows of the segment as erased and returns the batches that changed. Call forget() for the
  // rows first.
  static std::vector<SegmentBatch*> mark_erased(Segment& segment, const KvRowFilter& which);

  void use(Place& place, std::uint64_t when) {
    place.used = std::max(place.used, when);
    last_use_ = std::max(last_use_, when);
  }
  std::uint64_t last_use() const { return last_use_; }
  // Returns a time later than all previous uses.
  std::uint64_t now() { return ++last_use_; }
  // Returns the segment whose rows have the oldest median use. Skips `newest` unless it is the only segment.
  // Null if there is no segment.
  struct LeastUsed {
    Segment* segment = nullptr;
    std::uint64_t median = 0;
  };
  LeastUsed least_used(const Segment* newest) const;
  // Returns the segment's rows, most recently used first, without those in the least recently used quarter of
  // all rows.
  std::vector<Place> used_rows(const Segment& segment) const;
  static bool has_rows(const Segment& segment);  // true if any row is not erased

  std::map<std::uint64_t, std::unique_ptr<Segment>>& segments() { return segments_; }
  const std::map<std::uint64_t, std::unique_ptr<Segment>>& segments() const { return segments_; }
  std::size_t num_rows() const { return rows_.size(); }
  void check_invariants() const;

 private:
  std::vector<std::uint64_t> uses_of(const Segment& segment) const;  // only of rows that lookups find
  struct Hash {
    std::size_t operator()(const KvKey* key) const { return KvKeyHasher()(*key); }
  };
  struct Equal {
    bool operator()(const KvKey* a, const KvKey* b) const { return *a == *b; }
  };
  std::map<std::uint64_t, std::unique_ptr<Segment>> segments_;
  std::unordered_map<const KvKey*, Place, Hash, Equal> rows_;  // the keys point into the rows
  std::uint64_t last_use_ = 0;
};

}  // namespace pagoda
