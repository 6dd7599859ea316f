#include "cli/assembly/data_parallel.h"

#include "base/strings.h"
#include "cli/assembly/devices.h"
#include "cli/assembly/runner_options.h"

namespace pagoda {

Status check_data_parallel(const EngineFlags& flags) {
  if (flags.data_parallel_size == 1) return ok_status();
  const std::string asked = concat("--data-parallel-size ", flags.data_parallel_size);
  const auto one_engine = [&](const std::string& flag) {
    return invalid_argument(concat(flag, " works with one engine: it cannot be used with ", asked));
  };
  if (uses_device(flags)) return one_engine(concat("--device ", flags.device));
  if (flags.tensor_parallel_size > 1 || flags.mpi_local_size > 0) return one_engine("--tensor-parallel-size");
  if (!flags.kv_disk.empty()) return one_engine("--kv-disk");
  if (flags.kv_transfer.enabled()) return one_engine("--kv-transfer-config");
  if (flags.kv_events.enabled) return one_engine("--kv-events-config");
  if (const int threads = num_threads(flags); threads < flags.data_parallel_size)
    return invalid_argument(concat(asked, " needs a thread for each engine, but there ",
                                   threads == 1 ? "is " : "are ", threads, ": see --threads"));
  return ok_status();
}

}  // namespace pagoda
