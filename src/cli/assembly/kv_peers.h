#pragma once
// open_kv_peers(): implements --kv-transfer-config with a tier that fetches from other servers, and a server
// for them.
#include <memory>

#include "base/metrics.h"
#include "base/status.h"
#include "cli/assembly/loaded_runner.h"
#include "cli/flags/engine_flags.h"
#include "loader/model_source.h"
#include "request/kv_row_source.h"
#include "request/kv_tier.h"

namespace pagoda {

struct KvPeers {
  std::unique_ptr<KvTier> tier;         // null for kv_producer
  std::unique_ptr<KvRowServer> server;  // null for kv_consumer
};
// For the engine of this rank. Errors: the address is unusable, the secret is missing or unreadable, the
// model's files cannot be read.
Result<KvPeers> open_kv_peers(const EngineFlags& flags, const ModelSource& source, const LoadedRunner& runner,
                              std::int32_t rank, MetricsRegistry& metrics);

// The JSON of vLLM's kv_transfer_params in an answer, with which a client lets another server continue from
// this server's K/V. Empty if this server does not serve K/V.
std::string kv_transfer_params(const KvTransferConfig& config);

}  // namespace pagoda
