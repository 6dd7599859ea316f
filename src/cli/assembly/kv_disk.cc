#include "cli/assembly/kv_disk.h"

#include "base/assign_or_return.h"
#include "base/log.h"
#include "base/strings.h"
#include "cli/assembly/kv_fingerprint.h"
#include "cli/assembly/runner_options.h"
#include "cli/mib.h"
#include "kv_store/disk_tier.h"

namespace pagoda {

Result<std::shared_ptr<KvTier>> open_kv_disk(const EngineFlags& flags, const ModelSource& source,
                                             const LoadedRunner& runner, MetricsRegistry& metrics) {
  ThreadPool pool(num_threads(flags));
  PAGODA_ASSIGN_OR_RETURN(const auto fingerprint, kv_fingerprint(flags, source, runner, pool));
  static const SteadyClock clock;
  const std::int64_t writes = flags.kv_disk_writes_per_hour;
  auto tier =
      DiskTier::open({.path = flags.kv_disk,
                      .store = {.max_bytes = flags.kv_disk_bytes,
                                .max_write_bytes_per_hour = writes > 0 ? writes : WriteAllowance::kUnbounded},
                      .fingerprint = fingerprint,
                      .label = source.path()},
                     clock, metrics);
  if (!tier) return tier.error();
  std::int64_t rows = 0;
  (*tier)->each_key([&rows](const TierKey&, const CacheOwner&) { ++rows; });
  log_info("kv", concat(flags.kv_disk, " has ", mib((*tier)->stats().bytes), " of K/V; ", rows,
                        " blocks are of this model"));
  return std::shared_ptr<KvTier>(*std::move(tier));
}

}  // namespace pagoda
