#pragma once
// ServerContext: what all connections of a server share. Not the acceptor and its loop (server.cc).
// Threads: any; counters are atomic, the rest is fixed before serving starts.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <ctime>
#include <string>

#include "api/api_context.h"
#include "base/clock.h"
#include "base/memory_budget.h"
#include "engine/client.h"
#include "server/access.h"
#include "server/body_budget.h"
#include "server/http_metrics.h"
#include "server/job_pool.h"
#include "server/live_calls.h"
#include "server/protocols.h"
#include "server/routes.h"
#include "server/server.h"
#include "server/snapshot_desk.h"

namespace pagoda {

// Counts one while it lives, whatever way its scope is left.
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
      : config(std::move(server_config)),
        engine(client),
        api(api_context),
        metrics(registry),
        keys(config.api_keys),
        hosts(config.host, loopback, config.allowed_hosts),
        routes(all_routes(config.protocols.empty() ? all_protocols() : config.protocols, config.page)),
        snapshots(client),
        bodies(config.max_bodies_bytes, config.max_body_bytes),
        memory(static_cast<std::int64_t>(config.max_answer_memory)),
        answers(*memory.add_account("answers", memory.limit(), memory.limit())),
        jobs({.threads = config.worker_threads,
              .max_jobs = config.max_pending_calls,
              .max_bytes = std::max(config.max_bodies_bytes, config.max_body_bytes),
              .max_wait = config.max_job_wait},
             clock) {}

  const ServerConfig config;
  EngineClient& engine;
  const ApiContext& api;
  HttpMetrics metrics;
  const ApiKeys keys;
  const HostCheck hosts;
  const RouteTable routes;
  SnapshotDesk snapshots;
  BodyBudget bodies;
  SteadyClock clock;
  MemoryBudget memory;
  const MemoryBudget::AccountId answers;

  std::atomic<std::uint64_t> next_request_id{1};
  LiveCalls live_calls;
  std::atomic<std::int64_t> num_active{0};      // requests between head and end of response
  std::atomic<std::int64_t> num_generating{0};  // calls in the engine, for /load
  std::atomic<std::size_t> num_connections{0};
  std::atomic<std::uint64_t> next_connection{1};
  std::atomic<bool> draining{false};
  JobPool jobs;  // last: its threads use all of the above
};

}  // namespace pagoda
