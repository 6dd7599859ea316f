#pragma once
// The cores and the NUMA node of each rank of this machine or each engine of this process, from --cpu-list
// and the machine's topology. Without the flag: one per node if there are several of both; otherwise nothing
// is bound.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/numa.h"
#include "base/status.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

struct RankPlace {
  CpuList cpus;             // empty: any core the process may run on
  std::optional<int> node;  // node of the memory; absent: cores of several nodes, or unknown
  int sharing = 1;          // number of ranks sharing these cores
};

// Places ranks 0 … num_ranks-1 of one machine, or other items as named by `kind`. `allowed`: cores that this
// process may use.
// invalid_argument: lists that do not fit the ranks or the machine.
Result<std::vector<RankPlace>> plan_rank_places(const CpuListFlag& flag, std::int32_t num_ranks,
                                                const std::vector<NumaNode>& nodes, const CpuList& allowed,
                                                std::string_view kind = "rank");

// The number of compute threads of a rank at this place. `quota`: cores that a cgroup grants to the ranks of
// this machine together.
int threads_at(const RankPlace& place, int quota, std::int32_t num_ranks);

// Binds this process; call before compute threads exist. Logs a line that begins with `who`. Failing to bind
// to an explicitly requested list is an error; failures of default bindings, and of memory, are only
// warnings.
Status take_place(const RankPlace& place, const std::string& who, bool asked_for);

}  // namespace pagoda
