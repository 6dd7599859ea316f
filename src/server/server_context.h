#pragma once
// ServerContext: everything that all connections of a server share, except the acceptor and its loop
// (server.cc). Threads: any; counters are atomic; the rest does not change once serving starts.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <ctime>
#include <deque>
#include <map>
#include <mutex>
#include <string>

#include "api/answer_store.h"
#include "api/api_context.h"
#include "base/clock.h"
#include "engine/client.h"
#include "server/access.h"
#include "server/background_calls.h"
#include "server/body_budget.h"
#include "server/http_metrics.h"
#include "server/job_pool.h"
#include "server/keys/key_store.h"
#include "server/live_calls.h"
#include "server/live_desk.h"
#include "server/loading_thread.h"
#include "server/memory_accounts.h"
#include "server/protocols.h"
#include "server/routes.h"
#include "server/server.h"
#include "server/snapshot_desk.h"

namespace pagoda {

// Adds one to a counter during its lifetime.
class Counted {
 public:
  explicit Counted(std::atomic<std::int64_t>& count) : count_(count) { count_.fetch_add(1); }
  ~Counted() { count_.fetch_sub(1); }
  Counted(const Counted&) = delete;

 private:
  std::atomic<std::int64_t>& count_;
};

struct ServerContext {
  ServerContext(ServerConfig server_config, bool loopback, EngineClient& client,
                const ApiContext& api_context, MetricsRegistry& registry)
      : memory(server_config),
        config(std::move(server_config)),
        engine(client),
        kept_answers(config.max_stored_answers_bytes, config.stored_answers),
        api(api_context),
        metrics(registry),
        keys(registry, clock),
        hosts(config.host, loopback, config.allowed_hosts),
        routes(all_routes(config.protocols.empty() ? all_protocols() : config.protocols, config.page)),
        bodies(memory.ledger(), memory.bodies(), static_cast<std::int64_t>(config.max_body_bytes)),
        jobs({.threads = config.worker_threads,
              .max_jobs = config.max_pending_calls,
              .max_bytes = std::max(config.max_bodies_bytes, config.max_body_bytes),
              .max_wait = config.max_job_wait},
             clock),
        background(client, kMaxBackgroundCalls) {
    for (std::size_t i = 0; i < client.num_engines(); ++i) {
      snapshots.emplace_back(client.engine(i));
      live.emplace_back(client.engine(i), kLiveReaders, config.max_unsent_bytes);
    }
    api.answers = &kept_answers;
    api.detached = &background;
  }
  static constexpr std::size_t kMaxBackgroundCalls = 256;

  MemoryAccounts memory;
  const ServerConfig config;  // reduced to the available memory
  EngineClient& engine;
  AnswerStore kept_answers;
  ApiContext api;  // with the server's own parts; does not change after construction
  HttpMetrics metrics;
  SteadyClock clock;
  KeyStore keys;
  const HostCheck hosts;
  const RouteTable routes;
  static constexpr std::size_t kLiveReaders = 4;
  std::deque<SnapshotDesk> snapshots;  // by engine
  std::deque<LiveDesk> live;           // by engine
  BodyBudget bodies;

  bool isolates_prefixes() const { return config.isolate_prefix_cache.value_or(keys.several_tenants()); }
  // The context for a key, which may have a smaller max_model_len than the model.
  const ApiContext& context_for(const ApiKey& key);

  std::atomic<std::uint64_t> next_request_id{1};
  LiveCalls live_calls;
  std::atomic<std::int64_t> num_active{0};      // requests between their head and the end of the response
  std::atomic<std::int64_t> num_generating{0};  // calls in the engine, for /load
  std::atomic<std::size_t> num_connections{0};
  std::atomic<std::size_t> num_beyond{0};  // connections accepted over the limit
  std::atomic<bool> draining{false};
  std::mutex contexts_mutex;
  std::map<std::int32_t, ApiContext> contexts;  // by max_model_len; guarded; never erased: calls borrow them
  LoadingThread loading;                        // loads adapters
  JobPool jobs;                                 // its threads use all members above
  BackgroundCalls background;                   // uses all members above
};

inline const ApiContext& ServerContext::context_for(const ApiKey& key) {
  const std::int32_t length = key.entry.max_model_len;
  if (length == 0 || length >= api.max_model_len) return api;
  std::lock_guard lock(contexts_mutex);
  const auto [place, made] = contexts.try_emplace(length, api);
  if (made) place->second.max_model_len = length;
  return place->second;
}

}  // namespace pagoda
