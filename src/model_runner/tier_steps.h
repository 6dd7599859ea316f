#pragma once
// TierSteps: a model runner's side of the KV tiers: the TierEngine that carries out its batches' moves, where
// it has one, and what its batches may ask for. Not where its pages are: TierEngine::Pages.
// Threads: the runner's, but for erase_these()'s `done` and what on_news() is given. Owner: the runner, whose
// pages outlive it.
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
  // Once; the fastest tier first.
  void start(std::vector<std::shared_ptr<KvTier>> tiers, TierEngine::Pages pages,
             std::unique_ptr<KvRowServer> server);

  // internal: a batch has moves of rows that are none, of pages from num_pages on, or without tiers.
  Status check(const TierMoves& moves, const KvGroupPlan& plan, std::int64_t num_pages) const;
  // Before anything else of a batch; and once its swaps and block copies are done.
  void cancel(const TierMoves& moves);
  void submit(const TierMoves& moves);
  void take_news(TierNews& news);

  // As ModelRunner has them.
  bool has_news() const { return engine_ != nullptr && engine_->has_news(); }
  void on_news(std::function<void()> wake);
  void erase(ModelRunner::TierRows which);
  void erase_these(TierErase what, std::function<void(Status)> done);

 private:
  std::unique_ptr<TierEngine> engine_;  // null: no tiers
};

}  // namespace pagoda
