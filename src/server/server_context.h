#pragma once
// ServerContext: what all connections of a server share. Not the acceptor and its loop (server.cc).
// Threads: any; counters are atomic, the rest is fixed before serving starts.
#include <atomic>
#include <cstdint>
#include <ctime>
#include <string>

#include "api/api_context.h"
#include "base/clock.h"
#include "engine/client.h"
#include "server/access.h"
#include "server/http_metrics.h"
#include "server/live_calls.h"
#include "server/server.h"

namespace pagoda {

struct ServerContext {
  ServerContext(ServerConfig server_config, bool loopback, EngineClient& client,
                const ApiContext& api_context, MetricsRegistry& registry)
      : config(std::move(server_config)),
        engine(client),
        api(api_context),
        metrics(registry),
        keys(config.api_keys),
        hosts(config.host, loopback, config.allowed_hosts) {}

  const ServerConfig config;
  EngineClient& engine;
  const ApiContext& api;
  HttpMetrics metrics;
  const ApiKeys keys;
  const HostCheck hosts;
  SteadyClock clock;

  std::atomic<std::uint64_t> next_request_id{1};
  LiveCalls live_calls;
  std::atomic<std::int64_t> num_active{0};        // requests between head and end of response
  std::atomic<std::int64_t> num_generating{0};    // calls in the engine, for /load
  std::atomic<std::size_t> num_pending_calls{0};  // in the workers' queue
  std::atomic<std::size_t> bodies_bytes{0};       // held for request bodies
  std::atomic<std::size_t> num_connections{0};
  std::atomic<bool> draining{false};
};

}  // namespace pagoda
