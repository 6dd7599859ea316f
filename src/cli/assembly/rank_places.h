#pragma once
// Which cores, and which node's memory, each rank of this machine or each engine of this process has: from
// --cpu-list and from what the machine is. Without the flag, one a node where there are several of both; else
// nothing is bound.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/numa.h"
#include "base/status.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

struct RankPlace {
  CpuList cpus;             // empty: wherever the process may run
  std::optional<int> node;  // whose memory; absent: cores of several nodes, or nothing is known
  int sharing = 1;          // ranks that have these cores
};

// Places the ranks 0 … num_ranks-1 of one machine, or what else `kind` names. `allowed`: cores that this
// process may use.
// invalid_argument: lists that do not fit the ranks or the machine.
Result<std::vector<RankPlace>> plan_rank_places(const CpuListFlag& flag, std::int32_t num_ranks,
                                                const std::vector<NumaNode>& nodes, const CpuList& allowed,
                                                std::string_view kind = "rank");

// Compute threads of a rank there; `quota`: cores that a cgroup grants the ranks of this machine together.
int threads_at(const RankPlace& place, int quota, std::int32_t num_ranks);

// Binds this process, before it has threads that compute, and says so in a line that `who` begins. A list
// that was asked for and cannot be had is an error; what nobody asked for, and memory, are warned of only.
Status take_place(const RankPlace& place, const std::string& who, bool asked_for);

}  // namespace pagoda
