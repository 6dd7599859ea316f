#include "cli/assembly/kv_tiers_of_runners.h"

#include <memory>
#include <utility>

#include "base/strings.h"
#include "cli/assembly/kv_disk.h"
#include "cli/assembly/kv_peers.h"
#include "model_runner/host_tier.h"

namespace pagoda {

Result<std::vector<std::string>> set_kv_tiers(const EngineFlags& flags, const EnginePlan& plan,
                                              const ModelSource& source, std::span<LoadedRunner> runners,
                                              std::span<const RankPlace> places, MetricsRegistry& metrics) {
  std::vector<std::string> media;
  if (!plan.engine.kv_tiers) return media;
  std::shared_ptr<KvTier> disk;
  if (!flags.kv_disk.empty()) {
    for (const LoadedRunner& runner : runners)
      if (runner.computes_on() != runners.front().computes_on())
        return invalid_argument(
            concat("--kv-disk is shared by engines on devices of one kind, but there are '",
                   runners.front().computes_on(), "' and '", runner.computes_on(), "'"));
    auto opened = open_kv_disk(flags, source, runners.front(), metrics);
    if (!opened) return opened.error().annotate("--kv-disk");
    disk = *std::move(opened);
  }
  std::int32_t rank = 0;
  for (LoadedRunner& runner : runners) {
    const RankPlace& place = places[static_cast<std::size_t>(rank)];
    const ThreadPlace here(place.cpus, place.node);
    std::vector<std::shared_ptr<KvTier>> tiers;
    if (plan.num_offload_blocks > 0) {
      auto host = HostTier::create(plan.num_offload_blocks, runner.kv_block_bytes());
      if (!host) return host.error().annotate("--kv-offloading-size");
      tiers.push_back(*std::move(host));
    }
    if (disk != nullptr) tiers.push_back(disk);
    KvPeers peers;
    if (flags.kv_transfer.enabled()) {
      auto opened =
          open_kv_peers(flags, source, runner, rank, metrics.labelled(concat("engine=\"", rank, "\"")));
      if (!opened) return opened.error().annotate("--kv-transfer-config");
      peers = *std::move(opened);
      if (peers.tier) tiers.push_back(std::move(peers.tier));
    }
    ++rank;
    media.clear();
    for (const auto& tier : tiers) media.emplace_back(tier->medium());
    PAGODA_RETURN_IF_ERROR(runner.set_tiers(std::move(tiers), std::move(peers.server)));
  }
  return media;
}

}  // namespace pagoda
