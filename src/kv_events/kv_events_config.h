#pragma once
// vLLM's --kv-events-config, field by field.
#include <cstdint>
#include <string>

namespace pagoda {

struct KvEventsConfig {
  bool enabled = false;  // enable_kv_cache_events, and publisher is not "null"
  std::string endpoint = "tcp://*:5557";
  std::string replay_endpoint;            // bound; empty: none
  std::int64_t buffer_steps = 10'000;     // batches kept for replay
  std::int64_t hwm = 100'000;             // messages that wait for a slow subscriber, at most
  std::int64_t max_queue_size = 100'000;  // batches that wait to be sent, at most
  std::string topic;
};

// Whether an endpoint is bound, as vLLM's are; else it is connected to.
inline bool is_bound(const std::string& endpoint) {
  return endpoint.find('*') != std::string::npos || endpoint.find("::") != std::string::npos ||
         endpoint.starts_with("ipc://") || endpoint.starts_with("inproc://");
}

}  // namespace pagoda
