#pragma once
// EngineGroup: several engines behind one EngineClient (--data-parallel-size). Each has an engine thread, a
// KV cache and compute threads of its own; a router (routing/router.h) chooses one for each request, unless
// the request names one. What concerns all of them (prefixes, sleep, the prefix cache) goes to all that live.
// A dead engine ends its own requests and gets no more.
//
// Each model having its own engine would be this class with another rule of choice: by the request's model.
// Invariant: the tokens of a request do not depend on the engine that it goes to; seeds are drawn here.
// Threads: any. Borrows the engines, which are alike; their sinks may outlive the group.
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

  const EngineLimits& limits() const override { return engines_.front()->limits(); }  // each engine's
  std::size_t num_engines() const override { return engines_.size(); }
  EngineClient& engine(std::size_t rank) override { return *engines_[rank]; }

  // An engine that is full or dead leaves the request to the others, unless the request names it.
  Status submit(Request request, std::shared_ptr<OutputSink> sink) override;
  std::optional<Refusal> refuse_unread(std::string_view tenant) override;
  double expected_wait(std::string_view tenant, std::int32_t priority) const override;
  void abort(RequestId id) override;
  void abort_sequence(RequestId id, std::int32_t index) override;

  // A prefix is pinned in every engine or in none; its blocks are those of all engines.
  Status add_prefix(std::string name, std::vector<TokenId> tokens, std::shared_ptr<OutputSink> sink) override;
  std::vector<PrefixInfo> list_prefixes() const override;
  Status drop_prefix(const std::string& name) override;

  // `done` gets the first error of any engine once all have answered.
  void sleep(const SleepOrder& order, ControlDone done) override;
  void wake_up(const WakeOrder& order, ControlDone done) override;
  bool is_sleeping() const override;  // some engine does
  void reset_prefix_cache(ControlDone done) override;
  void erase_cached(const CacheOwner& owner, ControlDone done) override;

  bool healthy() const override;         // some engine lives
  Status failure() const override;       // the first dead engine's
  Status check_health() const override;  // every engine lives

 private:
  struct Routes;
  class RoutedSink;
  class PrefixJoin;

  std::vector<EngineClient*> living() const;
  EngineClient* soonest(std::string_view tenant, std::int32_t priority) const;  // null: all are dead
  RouterChoice choose(const Request& request);
  Status submit_to(std::size_t engine, std::int64_t uncached_tokens, Request request,
                   std::shared_ptr<OutputSink> sink);
  EngineClient* engine_of(RequestId id) const;  // null: it has ended
  void ask_all(const std::function<void(EngineClient&, ControlDone)>& ask, ControlDone done);

  const std::vector<EngineClient*> engines_;
  const std::uint64_t seed_;
  std::atomic<std::uint64_t> num_drawn_seeds_{0};
  std::shared_ptr<Routes> routes_;
  std::unique_ptr<Router> router_;  // under the routes' mutex
};

}  // namespace pagoda
