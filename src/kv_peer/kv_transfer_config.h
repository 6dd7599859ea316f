#pragma once
// The supported parts of vLLM's --kv-transfer-config. Plain data.
#include <cstdint>
#include <string>
#include <vector>

namespace pagoda {

struct PeerAddress {
  std::string host;  // a name or an address, without brackets
  std::uint16_t port = 0;
  bool operator==(const PeerAddress&) const = default;
};

struct KvTransferConfig {
  bool serves = false;   // kv_role: kv_producer or kv_both
  bool fetches = false;  // kv_role: kv_consumer or kv_both
  std::string engine_id;
  PeerAddress listen = {.host = "127.0.0.1", .port = 14579};  // kv_ip, kv_port
  std::int64_t buffer_bytes = 1'000'000'000;  // kv_buffer_size: size of the tier that is served
  // kv_connector_extra_config
  std::vector<PeerAddress> peers;
  std::string secret_file;  // empty: no secret, allowed only for addresses of this machine
  double lease_s = 30;

  bool enabled() const { return serves || fetches; }
};

// Returns the configuration for the engine of this rank (--data-parallel-size). The engine listens on port
// kv_port + rank, as in vLLM's connectors.
inline KvTransferConfig config_of_rank(KvTransferConfig config, std::int32_t rank) {
  if (config.listen.port != 0) config.listen.port = static_cast<std::uint16_t>(config.listen.port + rank);
  return config;
}

}  // namespace pagoda
