// DeviceModelRunner's side of the KV tiers.
#include <algorithm>
#include <utility>

#include "device_runner/device_model_runner.h"

namespace pagoda::device_runner {

Status DeviceModelRunner::set_tiers(std::vector<std::shared_ptr<KvTier>> tiers,
                                    std::unique_ptr<KvRowServer> server) {
  settle();
  std::int32_t most_pages = 1;
  for (const KvGroup& group : kv_plan_.groups) most_pages = std::max(most_pages, group.pages_per_row);
  auto copies = TierCopies::create(*device_, kv_block_bytes(), most_pages,
                                   [this](BlockId page) { return blocks_ + index(page) * block_bytes_; });
  if (!copies) return copies.error();
  tier_copies_ = *std::move(copies);
  tiers_.start(
      std::move(tiers),
      {.bytes = kv_block_bytes(),
       .read = [this](std::span<const BlockId> pages,
                      std::span<std::byte> to) { return tier_copies_->read(pages, to); },
       .write = [this](std::span<const BlockId> pages,
                       std::span<const std::byte> from) { return tier_copies_->write(pages, from); }},
      std::move(server));
  return ok_status();
}

// A row may arrive in memory that is swapped out or copied from in the same batch.
Status DeviceModelRunner::start_tier_moves(const ScheduledBatch& batch) {
  if (batch.tier_moves.empty()) return ok_status();
  if (!batch.block_copies.empty()) PAGODA_RETURN_IF_ERROR(device_->synchronize(stream_));
  tiers_.submit(batch.tier_moves);
  return ok_status();
}

}  // namespace pagoda::device_runner
