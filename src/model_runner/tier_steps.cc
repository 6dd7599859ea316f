// LocalModelRunner's side of the KV tiers: which bytes a TierEngine copies.
#include <algorithm>
#include <utility>

#include "model_runner/local_model_runner.h"

namespace pagoda {

void LocalModelRunner::set_tiers(std::vector<std::shared_ptr<KvTier>> tiers,
                                 std::unique_ptr<KvRowServer> server) {
  tiers_ = std::make_unique<TierEngine>(
      std::move(tiers),
      TierEngine::Pages{
          .bytes = kv_.block_bytes(),
          .read = [this](BlockId id, std::span<std::byte> to) { kv_.read(id, to); },
          .write = [this](BlockId id, std::span<const std::byte> from) { kv_.write(id, from); }},
      std::move(server));
}

void LocalModelRunner::on_tier_news(std::function<void()> wake) {
  if (tiers_) tiers_->on_news(std::move(wake));
}

void LocalModelRunner::erase_tiers(TierRows which) {
  if (!tiers_) return;
  tiers_->erase_all(which == TierRows::all ? TierEngine::Erase::all
                                           : TierEngine::Erase::what_ends_with_the_process);
}

void LocalModelRunner::erase_from_tiers(TierErase what, std::function<void(Status)> done) {
  if (!tiers_) return done(ok_status());
  tiers_->erase(std::move(what), std::move(done));
}

Status LocalModelRunner::check_tier_moves(const TierMoves& moves) const {
  if (moves.empty()) return ok_status();
  const auto are_rows = [&](const auto& records) {
    return std::ranges::all_of(records, [&](const auto& record) {
      if (record.row.key.group < 0 || std::cmp_greater_equal(record.row.key.group, kv_plan_.groups.size()))
        return false;
      const KvGroup& group = kv_plan_.groups[static_cast<std::size_t>(record.row.key.group)];
      return std::ssize(record.pages) == group.pages_per_row &&
             std::ranges::all_of(record.pages,
                                 [&](BlockId id) { return index(id) >= 0 && index(id) < kv_.num_blocks(); });
    });
  };
  if (!tiers_ || !are_rows(moves.stores) || !are_rows(moves.fetches))
    return internal_error("rows for tiers that are not there");
  return ok_status();
}

}  // namespace pagoda
