#pragma once
// open_kv_peers(): --kv-transfer-config as a tier that fetches from other servers, and a server for them.
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
  std::unique_ptr<KvTier> tier;         // null: kv_producer
  std::unique_ptr<KvRowServer> server;  // null: kv_consumer
};
// For an engine of this rank. Errors: the address cannot be used, the secret cannot be read or is missing,
// the model's files cannot be read.
Result<KvPeers> open_kv_peers(const EngineFlags& flags, const ModelSource& source, const LoadedRunner& runner,
                              std::int32_t rank, MetricsRegistry& metrics);

// An answer tells this to whoever lets another server go on with its K/V: vLLM's kv_transfer_params, as JSON.
// Empty: this server gives nothing away.
std::string kv_transfer_params(const KvTransferConfig& config);

}  // namespace pagoda
