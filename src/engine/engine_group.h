#pragma once
// EngineGroup: several engines behind one EngineClient (--data-parallel-size). Each has its own engine
// thread, KV cache and compute threads; a router (routing/router.h) chooses one for each request, unless the
// request names one. Operations on all engines (prefixes, sleep, the prefix cache) go to all living ones. A
// dead engine ends its own requests and gets no more. An engine per model would be this class with another
// rule of choice: by the request's model. Invariant: the tokens of a request do not depend on the engine that
// serves it; seeds are drawn here. Threads: any. Borrows the engines, which are identical; their sinks may
// outlive the group.
#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "engine/client.h"
#include "routing/router.h"

namespace pagoda {

class EngineGroup final : public EngineClient {
 public:
  // At least one engine. `seed`: EngineConfig::seed.
  EngineGroup(std::vector<EngineClient*> engines, RouterKind router, std::uint64_t seed);
  ~EngineGroup() override;

  const EngineLimits& limits() const override { return engines_.front()->limits(); }  // same for every engine
  std::size_t num_engines() const override { return engines_.size(); }
  EngineClient& engine(std::size_t rank) override { return *engines_[rank]; }

  // If an engine is full or dead, the other engines are tried, unless the request names the engine.
  Status submit(Request request, std::shared_ptr<OutputSink> sink) override;
  std::optional<Refusal> refuse_unread(std::string_view tenant) override;
  double expected_wait(std::string_view tenant, std::int32_t priority) const override;
  void abort(RequestId id) override;
  void abort_sequence(RequestId id, std::int32_t index) override;

  // A prefix is pinned in every engine or in none; its block count is the sum over all engines.
  Status add_prefix(std::string name, std::vector<TokenId> tokens, std::shared_ptr<OutputSink> sink) override;
  std::vector<PrefixInfo> list_prefixes() const override;
  Status drop_prefix(const std::string& name) override;

  // `done` gets the first error of any engine, once all have answered.
  void sleep(const SleepOrder& order, ControlDone done) override;
  void wake_up(const WakeOrder& order, ControlDone done) override;
  bool is_sleeping() const override;  // true if any engine is sleeping
  void reset_prefix_cache(ControlDone done) override;
  void erase_cached(const CacheOwner& owner, ControlDone done) override;

  bool healthy() const override;         // true if any engine is alive
  Status failure() const override;       // reason of the first dead engine
  Status check_health() const override;  // ok if every engine is alive

 private:
  struct Routes;
  class RoutedSink;
  class PrefixJoin;

  std::vector<EngineClient*> living() const;
  EngineClient* soonest(std::string_view tenant, std::int32_t priority) const;  // null: all are dead
  RouterChoice choose(const Request& request);
  Status submit_to(std::size_t engine, std::int64_t uncached_tokens, Request request,
                   std::shared_ptr<OutputSink> sink);
  EngineClient* engine_of(RequestId id) const;  // null: the request has ended
  void ask_all(const std::function<void(EngineClient&, ControlDone)>& ask, ControlDone done);

  const std::vector<EngineClient*> engines_;
  const std::uint64_t seed_;
  std::atomic<std::uint64_t> num_drawn_seeds_{0};
  std::shared_ptr<Routes> routes_;
  std::unique_ptr<Router> router_;  // guarded by the mutex of routes_
};

}  // namespace pagoda
