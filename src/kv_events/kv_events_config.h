#pragma once
// vLLM's --kv-events-config, field by field. As in vLLM, each engine of a data-parallel group publishes at
// its own endpoint: the port plus its rank, or the name plus a suffix.
#include <charconv>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>

namespace pagoda {

struct KvEventsConfig {
  bool enabled = false;  // enable_kv_cache_events, and publisher is not "null"
  std::string endpoint = "tcp://*:5557";
  std::string replay_endpoint;            // always bound; empty: none
  std::int64_t buffer_steps = 10'000;     // batches kept for replay
  std::int64_t hwm = 100'000;             // most messages that wait for a slow subscriber
  std::int64_t max_queue_size = 100'000;  // most batches that wait to be sent
  std::string topic;
  std::int32_t data_parallel_rank = 0;
};

// True if the endpoint is bound, by vLLM's rules; otherwise it is connected to.
inline bool is_bound(const std::string& endpoint) {
  return endpoint.find('*') != std::string::npos || endpoint.find("::") != std::string::npos ||
         endpoint.starts_with("ipc://") || endpoint.starts_with("inproc://");
}

// The port of a tcp:// endpoint; nullopt if the system chooses one.
inline std::optional<int> port_of(const std::string& endpoint) {
  constexpr int kMost = 65535;
  const std::size_t colon = endpoint.rfind(':');
  if (!endpoint.starts_with("tcp://") || colon < std::size("tcp://") - 1) return std::nullopt;
  int port = 0;
  const char* const end = endpoint.data() + endpoint.size();
  const auto [at, error] = std::from_chars(endpoint.data() + colon + 1, end, port);
  if (error != std::errc() || at != end || port < 1 || port > kMost) return std::nullopt;
  return port;
}

// The endpoint of the engine with this rank.
inline std::string endpoint_of_rank(const std::string& endpoint, std::int32_t rank) {
  if (rank == 0 || endpoint.empty()) return endpoint;
  if (endpoint.starts_with("ipc://") || endpoint.starts_with("inproc://"))
    return endpoint + "_dp" + std::to_string(rank);
  const std::optional<int> port = port_of(endpoint);
  return port ? endpoint.substr(0, endpoint.rfind(':') + 1) + std::to_string(*port + rank) : endpoint;
}

inline KvEventsConfig config_of_rank(KvEventsConfig config, std::int32_t rank) {
  config.endpoint = endpoint_of_rank(config.endpoint, rank);
  config.replay_endpoint = endpoint_of_rank(config.replay_endpoint, rank);
  config.data_parallel_rank = rank;
  return config;
}

}  // namespace pagoda
