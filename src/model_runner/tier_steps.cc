#include "model_runner/tier_steps.h"

#include <algorithm>
#include <utility>

namespace pagoda {

void TierSteps::start(std::vector<std::shared_ptr<KvTier>> tiers, TierEngine::Pages pages,
                      std::unique_ptr<KvRowServer> server) {
  engine_ = std::make_unique<TierEngine>(std::move(tiers), std::move(pages), std::move(server));
}

Status TierSteps::check(const TierMoves& moves, const KvGroupPlan& plan, std::int64_t num_pages) const {
  if (moves.empty()) return ok_status();
  const auto are_rows = [&](const auto& records) {
    return std::ranges::all_of(records, [&](const auto& record) {
      if (record.row.key.group < 0 || std::cmp_greater_equal(record.row.key.group, plan.groups.size()))
        return false;
      const KvGroup& group = plan.groups[static_cast<std::size_t>(record.row.key.group)];
      return std::ssize(record.pages) == group.pages_per_row &&
             std::ranges::all_of(record.pages,
                                 [&](BlockId id) { return index(id) >= 0 && index(id) < num_pages; });
    });
  };
  if (!engine_ || !are_rows(moves.stores) || !are_rows(moves.fetches))
    return internal_error("rows for tiers that are not there");
  return ok_status();
}

void TierSteps::cancel(const TierMoves& moves) {
  if (engine_) engine_->cancel(moves.cancels);
}

void TierSteps::submit(const TierMoves& moves) {
  if (engine_) engine_->submit(moves);
}

void TierSteps::take_news(TierNews& news) {
  if (engine_) engine_->take_news(news);
}

void TierSteps::on_news(std::function<void()> wake) {
  if (engine_) engine_->on_news(std::move(wake));
}

void TierSteps::erase(ModelRunner::TierRows which) {
  if (!engine_) return;
  engine_->erase_all(which == ModelRunner::TierRows::all ? TierEngine::Erase::all
                                                         : TierEngine::Erase::what_ends_with_the_process);
}

void TierSteps::erase_these(TierErase what, std::function<void(Status)> done) {
  if (!engine_) return done(ok_status());
  engine_->erase(std::move(what), std::move(done));
}

}  // namespace pagoda
