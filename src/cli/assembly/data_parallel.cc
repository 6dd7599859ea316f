#include "cli/assembly/data_parallel.h"

#include <cstdlib>

#include "base/log.h"
#include "base/strings.h"
#include "cli/assembly/devices.h"
#include "cli/assembly/runner_options.h"

namespace pagoda {

Result<std::vector<RankPlace>> engine_places(const EngineFlags& flags, const std::string& nodes_folder) {
  const std::int32_t count = flags.data_parallel_size;
  if (count == 1 || flags.cpu_list.lists.size() == 1)
    return std::vector<RankPlace>(static_cast<std::size_t>(count));
  return plan_rank_places(flags.cpu_list, count, read_numa_nodes(nodes_folder), allowed_cpus(), "engine");
}

void log_place(std::int32_t engine, const RankPlace& place) {
  if (place.cpus.empty()) return;
  log_info("start", concat("engine ", engine, ": cores ", cpu_list_text(place.cpus),
                           place.node ? concat(", memory of node ", *place.node) : std::string()));
}

EngineFlags flags_of_engine(EngineFlags flags, std::int32_t engine) {
  flags.device_indices = {gpu_of(flags, engine)};
  return flags;
}

Status check_data_parallel(const EngineFlags& flags) {
  if (flags.data_parallel_size == 1) return ok_status();
  const std::string asked = concat("--data-parallel-size ", flags.data_parallel_size);
  const auto one_engine = [&](const std::string& flag) {
    return invalid_argument(concat(flag, " works with one engine: it cannot be used with ", asked));
  };
  if (flags.tensor_parallel_size > 1 || flags.mpi_local_size > 0) return one_engine("--tensor-parallel-size");
  constexpr int kMostPort = 65535;
  if (const int port = flags.kv_transfer.listen.port;
      flags.kv_transfer.serves && port > kMostPort - flags.data_parallel_size + 1)
    return invalid_argument(concat("--kv-transfer-config: with ", asked, " 'kv_port' takes ",
                                   flags.data_parallel_size, " ports, from ", port, " on"));
  const std::optional<int> events = port_of(flags.kv_events.endpoint),
                           replay = port_of(flags.kv_events.replay_endpoint);
  if (flags.kv_events.enabled && is_bound(flags.kv_events.endpoint) && events && replay &&
      std::abs(*events - *replay) < flags.data_parallel_size)
    return invalid_argument(concat("--kv-events-config: with ", asked,
                                   " 'endpoint' and 'replay_endpoint' take ", flags.data_parallel_size,
                                   " ports each, from theirs on: ", *events, " and ", *replay,
                                   " are too close"));
  if (const int threads = num_threads(flags); threads < flags.data_parallel_size)
    return invalid_argument(concat(asked, " needs a thread for each engine, but there ",
                                   threads == 1 ? "is " : "are ", threads, ": see --threads"));
  return ok_status();
}

}  // namespace pagoda
