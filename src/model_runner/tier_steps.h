#pragma once
// TierSteps: a model runner's side of the KV tiers: the TierEngine that carries out its batches' moves, if
// there are tiers, and the check of those moves. TierEngine::Pages knows where the pages are.
// Threads: the runner's, except for the callbacks of erase_these() and on_news(). Owner: the runner, whose
// pages must outlive it.
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"
#include "model_runner/kv_group_plan.h"
#include "model_runner/model_runner.h"
#include "model_runner/tier_engine.h"

namespace pagoda {

class TierSteps {
 public:
  // Called once; the fastest tier comes first.
  void start(std::vector<std::shared_ptr<KvTier>> tiers, TierEngine::Pages pages,
             std::unique_ptr<KvRowServer> server);

  // internal: a batch has moves of invalid rows, of pages >= num_pages, or without tiers.
  Status check(const TierMoves& moves, const KvGroupPlan& plan, std::int64_t num_pages) const;
  // cancel() comes before any other work of a batch, submit() after its swaps and block copies.
  void cancel(const TierMoves& moves);
  void submit(const TierMoves& moves);
  void take_news(TierNews& news);

  // As in ModelRunner.
  bool has_news() const { return engine_ != nullptr && engine_->has_news(); }
  void on_news(std::function<void()> wake);
  void erase(ModelRunner::TierRows which);
  void erase_these(TierErase what, std::function<void(Status)> done);

 private:
  std::unique_ptr<TierEngine> engine_;  // null: no tiers
};

}  // namespace pagoda
