#pragma once
// The ranks of a tensor-parallel group, from flags: who starts them.
//   --tensor-parallel-size N alone   this process forks the others (distributed/local_ranks.h)
//   mpirun -n N                      mpirun, on one machine or several (distributed/mpi.h)
// The process that goes on from join_ranks() is rank 0.
#include <memory>

#include "base/status.h"
#include "cli/flags/engine_flags.h"
#include "distributed/parallel_context.h"

namespace pagoda {

// Null: one process is enough. In a rank other than 0 it does not return: the rank serves, and its process
// ends. Call it before any thread exists that computes: the process may be bound to cores (rank_places.h),
// and `threads` of its flags then becomes what there are.
Result<std::unique_ptr<Communicator>> join_ranks(EngineFlags& flags);

// Compute threads of each rank on this machine: --threads, or its share of the usable cores.
int threads_per_rank(const EngineFlags& flags);

// The group, as each rank's runner sees it; `communicator` may be null.
ParallelContext parallel_context(const EngineFlags& flags, Communicator* communicator);

}  // namespace pagoda
