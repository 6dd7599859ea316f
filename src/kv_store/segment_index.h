#pragma once
// SegmentIndex: which row lies where, in memory. It knows every row that is physically in a segment, also
// those that no lookup finds any more (another segment has a newer copy, or reading them failed), so that
// erasing reaches them. It does no I/O.
// Invariant: an indexed row is not erased, and its segment is one of segments().
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
  std::uint64_t number = 0, bytes = 0;  // bytes: of the file
  bool unclear = false;  // the file may hold rows that are not listed, since the disk failed while it changed
  std::vector<SegmentBatch> batches = {};
};

class SegmentIndex {
 public:
  struct Place {
    Segment* segment = nullptr;
    const SegmentRow* row = nullptr;
    std::uint64_t used = 0;  // when it was used last: larger is later
  };

  Segment& add_segment(std::uint64_t number);
  // The batch lies behind all others of the segment. Its rows are found from now on, instead of older ones.
  // `uses`: when each was used last; none: in this order, now.
  void add_batch(Segment& segment, SegmentBatch batch, std::span<const std::uint64_t> uses = {});
  // Nothing of it is found any more.
  void remove_segment(std::uint64_t number);

  // The row under this key, whose tokens are these where they are given; null on a miss.
  Place* find(const KvKey& key, std::optional<std::span<const TokenId>> tokens = std::nullopt);
  const Place* find(const KvKey& key, std::optional<std::span<const TokenId>> tokens = std::nullopt) const;
  void each_key(const std::function<void(const KvKey&, const CacheOwner&)>& f) const;
  // It is not found any more. False: another one is, or none.
  bool forget(const KvKey& key, std::uint64_t segment, std::uint64_t offset);
  // These rows are not found any more; how many they were.
  std::int64_t forget(const KvRowFilter& which);
  // Marks these rows of the segment as erased; the batches that changed. They were forgotten before.
  static std::vector<SegmentBatch*> mark_erased(Segment& segment, const KvRowFilter& which);

  void use(Place& place, std::uint64_t when) {
    place.used = std::max(place.used, when);
    last_use_ = std::max(last_use_, when);
  }
  std::uint64_t last_use() const { return last_use_; }
  // A time later than all so far.
  std::uint64_t now() { return ++last_use_; }
  // The segment whose rows were used the longest ago, by their median, but for `newest` where there are
  // others. Null: there is none.
  struct LeastUsed {
    Segment* segment = nullptr;
    std::uint64_t median = 0;
  };
  LeastUsed least_used(const Segment* newest) const;
  // The segment's rows, the latest used first, without those that are among the quarter of all rows that were
  // used the longest ago.
  std::vector<Place> used_rows(const Segment& segment) const;
  static bool has_rows(const Segment& segment);  // that are not erased

  std::map<std::uint64_t, std::unique_ptr<Segment>>& segments() { return segments_; }
  const std::map<std::uint64_t, std::unique_ptr<Segment>>& segments() const { return segments_; }
  std::size_t num_rows() const { return rows_.size(); }
  void check_invariants() const;

 private:
  std::vector<std::uint64_t> uses_of(const Segment& segment) const;  // rows that are found
  struct Hash {
    std::size_t operator()(const KvKey* key) const { return KvKeyHasher()(*key); }
  };
  struct Equal {
    bool operator()(const KvKey* a, const KvKey* b) const { return *a == *b; }
  };
  std::map<std::uint64_t, std::unique_ptr<Segment>> segments_;
  std::unordered_map<const KvKey*, Place, Hash, Equal> rows_;  // the keys are those of the rows
  std::uint64_t last_use_ = 0;
};

}  // namespace pagoda
