#include "kv_store/segment_index.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace pagoda {

Segment& SegmentIndex::add_segment(std::uint64_t number) {
  const auto [at, made] = segments_.emplace(number, std::make_unique<Segment>(Segment{.number = number}));
  CHECK(made);
  return *at->second;
}

void SegmentIndex::add_batch(Segment& segment, SegmentBatch batch, std::span<const std::uint64_t> uses) {
  CHECK(uses.empty() || uses.size() == batch.rows.size());
  segment.bytes = std::max(segment.bytes, batch.offset + batch.bytes);
  segment.batches.push_back(std::move(batch));
  const std::vector<SegmentRow>& rows = segment.batches.back().rows;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].erased) continue;
    rows_.erase(&rows[i].key);  // the old entry's key points into the older row
    Place place{.segment = &segment, .row = &rows[i]};
    use(place, uses.empty() ? now() : uses[i]);
    rows_.emplace(&rows[i].key, place);
  }
}

void SegmentIndex::remove_segment(std::uint64_t number) {
  const auto found = segments_.find(number);
  CHECK(found != segments_.end());
  for (const SegmentBatch& batch : found->second->batches)
    for (const SegmentRow& row : batch.rows)
      if (const auto at = rows_.find(&row.key); at != rows_.end() && at->second.row == &row) rows_.erase(at);
  segments_.erase(found);
}

SegmentIndex::Place* SegmentIndex::find(const KvKey& key, std::optional<std::span<const TokenId>> tokens) {
  const auto at = rows_.find(&key);
  if (at == rows_.end()) return nullptr;
  return !tokens || std::ranges::equal(at->second.row->tokens, *tokens) ? &at->second : nullptr;
}

const SegmentIndex::Place* SegmentIndex::find(const KvKey& key,
                                              std::optional<std::span<const TokenId>> tokens) const {
  return const_cast<SegmentIndex*>(this)->find(key, tokens);
}

void SegmentIndex::each_key(const std::function<void(const KvKey&, const CacheOwner&)>& f) const {
  for (const auto& [key, place] : rows_) f(*key, place.row->owner);
}

bool SegmentIndex::forget(const KvKey& key, std::uint64_t segment, std::uint64_t offset) {
  const auto at = rows_.find(&key);
  if (at == rows_.end() || at->second.segment->number != segment || at->second.row->offset != offset)
    return false;
  rows_.erase(at);
  return true;
}

std::int64_t SegmentIndex::forget(const KvRowFilter& which) {
  return static_cast<std::int64_t>(
      std::erase_if(rows_, [&](const auto& entry) { return which(*entry.first, entry.second.row->owner); }));
}

std::vector<SegmentBatch*> SegmentIndex::mark_erased(Segment& segment, const KvRowFilter& which) {
  std::vector<SegmentBatch*> changed;
  for (SegmentBatch& batch : segment.batches) {
    bool any = false;
    for (SegmentRow& row : batch.rows) {
      if (row.erased || !which(row.key, row.owner)) continue;
      row.erased = any = true;
      row.key = {};
      row.owner = {};
      std::ranges::fill(row.tokens, TokenId{});
    }
    if (any) changed.push_back(&batch);
  }
  return changed;
}

std::vector<std::uint64_t> SegmentIndex::uses_of(const Segment& segment) const {
  std::vector<std::uint64_t> out;
  for (const SegmentBatch& batch : segment.batches)
    for (const SegmentRow& row : batch.rows)
      if (const auto at = rows_.find(&row.key); at != rows_.end() && at->second.row == &row)
        out.push_back(at->second.used);
  return out;
}

SegmentIndex::LeastUsed SegmentIndex::least_used(const Segment* newest) const {
  LeastUsed least;
  for (const auto& [number, segment] : segments_) {
    if (segment.get() == newest && segments_.size() > 1) continue;
    std::vector<std::uint64_t> uses = uses_of(*segment);
    const auto middle = uses.begin() + std::ssize(uses) / 2;
    if (!uses.empty()) std::ranges::nth_element(uses, middle);
    const std::uint64_t median = uses.empty() ? 0 : *middle;
    if (least.segment == nullptr || median < least.median) least = {segment.get(), median};
  }
  return least;
}

std::vector<SegmentIndex::Place> SegmentIndex::used_rows(const Segment& segment) const {
  std::vector<std::uint64_t> all;
  for (const auto& [key, place] : rows_) all.push_back(place.used);
  const auto quarter = all.begin() + std::ssize(all) / 4;
  if (!all.empty()) std::ranges::nth_element(all, quarter);
  std::vector<Place> used;
  for (const SegmentBatch& batch : segment.batches) {
    for (const SegmentRow& row : batch.rows) {
      const auto at = rows_.find(&row.key);
      if (at != rows_.end() && at->second.row == &row && at->second.used > *quarter)
        used.push_back(at->second);
    }
  }
  std::ranges::sort(used, std::greater(), &Place::used);
  return used;
}

bool SegmentIndex::has_rows(const Segment& segment) {
  return std::ranges::any_of(segment.batches, [](const SegmentBatch& batch) {
    return std::ranges::any_of(batch.rows, [](const SegmentRow& row) { return !row.erased; });
  });
}

void SegmentIndex::check_invariants() const {
  for (const auto& [key, place] : rows_) {
    CHECK(key == &place.row->key && !place.row->erased);
    const auto at = segments_.find(place.segment->number);
    CHECK(at != segments_.end() && at->second.get() == place.segment);
    CHECK(place.row->offset + place.row->bytes <= place.segment->bytes);
  }
}

}  // namespace pagoda
