#pragma once
// The ranks of a tensor-parallel group, from flags. They are started by:
//   --tensor-parallel-size N alone   this process, which forks the others (distributed/local_ranks.h)
//   mpirun -n N                      mpirun, on one machine or several (distributed/mpi.h)
// The process that returns from join_ranks() is rank 0.
#include <memory>

#include "base/status.h"
#include "cli/flags/engine_flags.h"
#include "distributed/parallel_context.h"

namespace pagoda {

// Null if a single process suffices. Does not return in ranks other than 0: they serve until the end of their
// process. Call before any compute thread exists: the process may be bound to cores (rank_places.h), which
// sets `threads` in its flags to the number available.
Result<std::unique_ptr<Communicator>> join_ranks(EngineFlags& flags);

// Compute threads of each rank on this machine: --threads, or an equal share of the usable cores.
int threads_per_rank(const EngineFlags& flags);

// The group as seen by each rank's runner; `communicator` may be null.
ParallelContext parallel_context(const EngineFlags& flags, Communicator* communicator);

}  // namespace pagoda
