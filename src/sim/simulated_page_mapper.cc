#include "sim/simulated_page_mapper.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace pagoda {
namespace {

std::int64_t pages_of(std::span<const PageMapping> mappings) {
  std::int64_t pages = 0;
  for (const PageMapping& mapping : mappings)
    pages += mapping.page == kNoPage || mapping.block == kNoBlock ? 0 : mapping.count;
  return pages;
}

}  // namespace

double mapped_block_bytes(const CostModel& model, std::int32_t tokens, std::int32_t pages_per_row,
                          std::int32_t num_tensors) {
  if (model.map_page_bytes <= 0) return 0;
  const double bytes = model.kv_bytes_per_token * tokens / model.tensor_parallel_size /
                       std::max(1, pages_per_row) / num_tensors;
  return std::ceil(bytes / model.map_page_bytes) * model.map_page_bytes;
}

SimulatedPageMapper::SimulatedPageMapper(const CostModel& model, std::span<const KvGroup> groups,
                                         std::int32_t num_tensors)
    : model_(model), num_tensors_(num_tensors) {
  std::int32_t pages_per_row = 0;
  for (const KvGroup& group : groups) pages_per_row += group.is_state() ? 0 : group.pages_per_row;
  const std::int32_t tokens = groups.empty() ? 1 : groups.front().tokens_per_row;
  if (model.map_page_bytes > 0)
    driver_pages_ = mapped_block_bytes(model, tokens, pages_per_row, num_tensors) / model.map_page_bytes;
}

double SimulatedPageMapper::seconds(std::span<const PageMapping> mappings) const {
  double out = 0;
  for (const PageMapping& mapping : mappings) {
    const bool maps = mapping.page != kNoPage && mapping.block != kNoBlock;
    out +=
        model_.map_call_s + mapping.count * driver_pages_ * (maps ? model_.map_page_s : model_.unmap_page_s);
  }
  return out * num_tensors_;
}

double SimulatedPageMapper::map(std::span<const PageMapping> mappings, TimeNs now) {
  const double left = now < ahead_until_ ? to_seconds(ahead_until_ - now) : 0;
  const double waits = left + seconds(mappings);
  if (waits > 0 || !mappings.empty()) {
    stats_.calls += std::ssize(mappings) * num_tensors_;
    stats_.pages += pages_of(mappings);
    stats_.seconds += waits;
    ++stats_.steps_delayed;
  }
  return waits;
}

void SimulatedPageMapper::map_ahead(std::span<const PageMapping> mappings, TimeNs now) {
  if (mappings.empty()) return;
  const double takes = seconds(mappings);
  ahead_until_ = std::max(now, ahead_until_) + static_cast<TimeNs>(std::ceil(takes * 1e9));
  const std::int64_t calls = std::ssize(mappings) * num_tensors_, pages = pages_of(mappings);
  stats_.calls += calls;
  stats_.calls_ahead += calls;
  stats_.pages += pages;
  stats_.pages_ahead += pages;
  stats_.seconds_ahead += takes;
}

MapStats SimulatedPageMapper::take_stats() { return std::exchange(stats_, {}); }

}  // namespace pagoda
