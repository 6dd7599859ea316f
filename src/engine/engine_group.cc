#include "engine/engine_group.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "base/strings.h"

namespace pagoda {
namespace {

// The load of a dead engine as seen by a router: more than any living engine has.
constexpr std::int64_t kDeadLoad = std::int64_t{1} << 30;
const Status kAllDead = unavailable("The engine has stopped.");

// True for refusals that apply to one engine only.
bool is_of_one_engine(const Status& status) {
  return status.code() == StatusCode::resource_exhausted || status.code() == StatusCode::unavailable ||
         status.code() == StatusCode::deadline_exceeded;
}

}  // namespace

Status check_rank(std::int32_t rank, std::size_t num_engines) {
  if (rank >= 0 && static_cast<std::size_t>(rank) < num_engines) return ok_status();
  return invalid_argument(concat("data_parallel_rank ", rank, " is out of range [0, ", num_engines, ")."))
      .with_param("data_parallel_rank");
}

// The requests in progress, each with its engine.
struct EngineGroup::Routes {
  struct Route {
    std::size_t engine = 0;
    std::int64_t uncached_tokens = 0;
  };
  std::mutex mutex;
  std::unordered_map<RequestId, Route> routes;
  std::vector<ReplicaLoad> loads;  // by engine

  void add(RequestId id, const Route& route) {
    std::lock_guard lock(mutex);
    if (!routes.emplace(id, route).second) return;
    ++loads[route.engine].requests;
    loads[route.engine].uncached_tokens += route.uncached_tokens;
  }
  void remove(RequestId id) {
    std::lock_guard lock(mutex);
    const auto known = routes.find(id);
    if (known == routes.end()) return;
    --loads[known->second.engine].requests;
    loads[known->second.engine].uncached_tokens -= known->second.uncached_tokens;
    routes.erase(known);
  }
};

// Forwards a request's outputs; the last one removes its route.
class EngineGroup::RoutedSink final : public OutputSink {
 public:
  RoutedSink(std::shared_ptr<Routes> routes, RequestId id, std::shared_ptr<OutputSink> sink)
      : routes_(std::move(routes)), id_(id), sink_(std::move(sink)) {}
  void on_output(RequestOutput output) override {
    if (output.finished) routes_->remove(id_);
    sink_->on_output(std::move(output));
  }

 private:
  const std::shared_ptr<Routes> routes_;
  const RequestId id_;
  const std::shared_ptr<OutputSink> sink_;
};

// Waits until all engines have pinned a prefix; if one has failed, the others drop it again.
class EngineGroup::PrefixJoin {
 public:
  PrefixJoin(std::string name, std::vector<EngineClient*> engines, std::shared_ptr<OutputSink> sink)
      : name_(std::move(name)),
        engines_(std::move(engines)),
        sink_(std::move(sink)),
        left_(engines_.size()) {}

  static std::shared_ptr<OutputSink> sink_of(std::shared_ptr<PrefixJoin> join, EngineClient& engine) {
    return std::make_shared<Part>(std::move(join), engine);
  }
  void finish(EngineClient& engine, RequestOutput output) {
    {
      std::lock_guard lock(mutex_);
      if (output.error.ok()) pinned_.push_back(&engine);
      if (last_.error.ok()) last_ = std::move(output);
      if (--left_ > 0) return;
    }
    if (!last_.error.ok())
      for (EngineClient* pinned : pinned_) (void)pinned->drop_prefix(name_);
    sink_->on_output(std::move(last_));
  }

 private:
  class Part final : public OutputSink {
   public:
    Part(std::shared_ptr<PrefixJoin> join, EngineClient& engine) : join_(std::move(join)), engine_(engine) {}
    void on_output(RequestOutput output) override {
      if (output.finished) join_->finish(engine_, std::move(output));
    }

   private:
    const std::shared_ptr<PrefixJoin> join_;
    EngineClient& engine_;
  };

  const std::string name_;
  const std::vector<EngineClient*> engines_;
  const std::shared_ptr<OutputSink> sink_;
  std::mutex mutex_;
  std::size_t left_;
  std::vector<EngineClient*> pinned_;
  RequestOutput last_;
};

EngineGroup::EngineGroup(std::vector<EngineClient*> engines, RouterKind router, std::uint64_t seed)
    : engines_(std::move(engines)),
      seed_(seed),
      routes_(std::make_shared<Routes>()),
      router_(make_router(router)) {
  CHECK(!engines_.empty());
  routes_->loads.resize(engines_.size());
}

EngineGroup::~EngineGroup() = default;

std::vector<EngineClient*> EngineGroup::living() const {
  std::vector<EngineClient*> out = engines_;
  std::erase_if(out, [](const EngineClient* engine) { return !engine->healthy(); });
  return out;
}

RouterChoice EngineGroup::choose(const Request& request) {
  std::lock_guard lock(routes_->mutex);
  std::vector<ReplicaLoad> loads = routes_->loads;
  for (std::size_t i = 0; i < loads.size(); ++i)
    if (!engines_[i]->healthy()) loads[i].requests = kDeadLoad;
  RouterChoice choice = router_->choose(request, loads);
  if (loads[choice.replica].requests >= kDeadLoad) choice.replica = least_loaded(loads);
  return choice;
}

Status EngineGroup::submit_to(std::size_t engine, std::int64_t uncached_tokens, Request request,
                              std::shared_ptr<OutputSink> sink) {
  const RequestId id = request.id;
  routes_->add(id, {.engine = engine, .uncached_tokens = uncached_tokens});
  const Status status = engines_[engine]->submit(std::move(request),
                                                 std::make_shared<RoutedSink>(routes_, id, std::move(sink)));
  if (!status.ok()) routes_->remove(id);
  return status;
}

Status EngineGroup::submit(Request request, std::shared_ptr<OutputSink> sink) {
  // Drawn here exactly as a single engine would, whichever engine serves the request.
  if (!request.sampling.seed) request.sampling.seed = random_bits(seed_, 0, ++num_drawn_seeds_);
  if (const auto rank = std::exchange(request.data_parallel_rank, std::nullopt)) {
    if (Status status = check_rank(*rank, engines_.size()); !status.ok()) return status;
    return submit_to(static_cast<std::size_t>(*rank), 0, std::move(request), std::move(sink));
  }
  const RouterChoice choice = choose(request);
  Status status = submit_to(choice.replica, choice.uncached_tokens, request, sink);
  for (std::size_t i = 0; i < engines_.size() && is_of_one_engine(status); ++i) {
    if (i == choice.replica || !engines_[i]->healthy()) continue;
    status = submit_to(i, 0, request, sink);
  }
  return status;
}

EngineClient* EngineGroup::soonest(std::string_view tenant, std::int32_t priority) const {
  EngineClient* best = nullptr;
  double least = 0;
  for (EngineClient* engine : living()) {
    const double wait = engine->expected_wait(tenant, priority);
    if (best != nullptr && wait >= least) continue;
    best = engine;
    least = wait;
  }
  return best;
}

// Asks only the engine that would start the request first: the other engines' refusals would be counted.
std::optional<EngineClient::Refusal> EngineGroup::refuse_unread(std::string_view tenant) {
  EngineClient* const engine = soonest(tenant, 0);
  return engine == nullptr ? std::nullopt : engine->refuse_unread(tenant);
}

double EngineGroup::expected_wait(std::string_view tenant, std::int32_t priority) const {
  const EngineClient* const engine = soonest(tenant, priority);
  return engine == nullptr ? 0 : engine->expected_wait(tenant, priority);
}

EngineClient* EngineGroup::engine_of(RequestId id) const {
  std::lock_guard lock(routes_->mutex);
  const auto known = routes_->routes.find(id);
  return known == routes_->routes.end() ? nullptr : engines_[known->second.engine];
}

void EngineGroup::abort(RequestId id) {
  if (EngineClient* engine = engine_of(id)) engine->abort(id);
}

void EngineGroup::abort_sequence(RequestId id, std::int32_t index) {
  if (EngineClient* engine = engine_of(id)) engine->abort_sequence(id, index);
}

Status EngineGroup::add_prefix(std::string name, std::vector<TokenId> tokens,
                               std::shared_ptr<OutputSink> sink) {
  const std::vector<EngineClient*> engines = living();
  if (engines.empty()) return kAllDead;
  const auto join = std::make_shared<PrefixJoin>(name, engines, std::move(sink));
  for (EngineClient* engine : engines) {
    const Status status = engine->add_prefix(name, tokens, PrefixJoin::sink_of(join, *engine));
    if (status.ok()) continue;
    if (engine == engines.front()) return status;  // no engine has it yet
    RequestOutput refused;
    refused.error = status;
    refused.finished = true;
    join->finish(*engine, std::move(refused));
  }
  return ok_status();
}

std::vector<PrefixInfo> EngineGroup::list_prefixes() const {
  std::vector<PrefixInfo> out;
  for (const EngineClient* engine : living()) {
    for (PrefixInfo& info : engine->list_prefixes()) {
      const auto known = std::ranges::find(out, info.name, &PrefixInfo::name);
      if (known == out.end())
        out.push_back(std::move(info));
      else
        known->num_blocks += info.num_blocks;
    }
  }
  return out;
}

Status EngineGroup::drop_prefix(const std::string& name) {
  Status status = kAllDead;
  bool dropped = false;
  for (EngineClient* engine : living()) {
    status = engine->drop_prefix(name);
    dropped = dropped || status.ok();
  }
  return dropped ? ok_status() : status;
}

void EngineGroup::ask_all(const std::function<void(EngineClient&, ControlDone)>& ask, ControlDone done) {
  struct Join {
    std::mutex mutex;
    std::size_t left;
    Status status;
    ControlDone done;
  };
  const std::vector<EngineClient*> engines = living();
  if (engines.empty()) return done(kAllDead);
  const auto join = std::make_shared<Join>();
  join->left = engines.size();
  join->done = std::move(done);
  for (EngineClient* engine : engines) {
    ask(*engine, [join](const Status& status) {
      {
        std::lock_guard lock(join->mutex);
        if (join->status.ok()) join->status = status;
        if (--join->left > 0) return;
      }
      join->done(join->status);
    });
  }
}

void EngineGroup::sleep(const SleepOrder& order, ControlDone done) {
  ask_all([&](EngineClient& engine, ControlDone slept) { engine.sleep(order, std::move(slept)); },
          std::move(done));
}

void EngineGroup::wake_up(const WakeOrder& order, ControlDone done) {
  ask_all([&](EngineClient& engine, ControlDone woken) { engine.wake_up(order, std::move(woken)); },
          std::move(done));
}

void EngineGroup::reset_prefix_cache(ControlDone done) {
  ask_all([](EngineClient& engine, ControlDone reset) { engine.reset_prefix_cache(std::move(reset)); },
          std::move(done));
}

void EngineGroup::erase_cached(const CacheOwner& owner, ControlDone done) {
  ask_all(
      [owner](EngineClient& engine, ControlDone erased) { engine.erase_cached(owner, std::move(erased)); },
      std::move(done));
}

bool EngineGroup::is_sleeping() const {
  return std::ranges::any_of(living(), [](const EngineClient* engine) { return engine->is_sleeping(); });
}

bool EngineGroup::healthy() const {
  return std::ranges::any_of(engines_, [](const EngineClient* engine) { return engine->healthy(); });
}

Status EngineGroup::failure() const {
  for (const EngineClient* engine : engines_)
    if (!engine->healthy()) return engine->failure();
  return ok_status();
}

Status EngineGroup::check_health() const {
  if (!healthy()) return EngineClient::check_health();
  for (std::size_t i = 0; i < engines_.size(); ++i) {
    if (engines_[i]->healthy()) continue;
    const Status why = engines_[i]->failure();
    return unavailable(concat("Engine ", i, " of ", engines_.size(), " has stopped; the others continue.",
                              why.ok() ? "" : " It says: ", why.message()));
  }
  return ok_status();
}

}  // namespace pagoda
