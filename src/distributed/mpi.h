#pragma once
// A group of ranks started by mpirun, on one or several machines. MPI is reached through a library beside the
// program (plugin/), which is opened only here.
//
// Ordered sums are gathered on every rank and added there; other sums are MPI's own. Waiting first spins,
// then yields, then sleeps for growing intervals of up to a millisecond, since MPI cannot block until data
// arrive. After a failed call the pending operation cannot be cancelled: the process can only end, which
// makes mpirun end the others.
// Threads: as Communicator; MPI is initialised for one caller at a time.
#include <memory>
#include <string>

#include "distributed/communicator.h"

namespace pagoda {

// `library`: path of the plugin. unavailable: the library or MPI is missing; the message names it. internal:
// MPI_Init failed.
Result<std::unique_ptr<Communicator>> join_mpi(const std::string& library);

}  // namespace pagoda
