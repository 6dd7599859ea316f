#pragma once
// What vLLM's --kv-events-config says, field by field.
#include <cstdint>
#include <string>

namespace pagoda {

struct KvEventsConfig {
  bool enabled = false;  // enable_kv_cache_events, and publisher is not "null"
  // Bound where it has a '*' or "::", or is ipc:// or inproc://; else connected to.
  std::string endpoint = "tcp://*:5557";
  std::string replay_endpoint;           // bound; empty: none
  std::int64_t buffer_steps = 10'000;    // batches kept for replay
  std::int64_t hwm = 100'000;            // messages that wait for a slow subscriber, at most
  std::int64_t max_queue_size = 100'000;  // batches that wait to be sent, at most
  std::string topic;
};

}  // namespace pagoda
