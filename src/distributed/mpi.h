#pragma once
// A group of ranks that mpirun has started, on one machine or several. MPI is reached through a library
// beside the program (plugin/), which is opened here and nowhere else.
//
// Sums in order are gathered on every rank and added there; others are MPI's own. Waiting: briefly busy, then
// yielding, then with growing naps of at most a millisecond, for MPI offers no way to sleep until something
// arrives. After a call has failed, the operation under way cannot be taken back: the process can only end,
// and its end makes mpirun end the others. Threads: as Communicator; MPI is initialised for one caller at a
// time.
#include <memory>
#include <string>

#include "distributed/communicator.h"

namespace pagoda {

// `library`: the plugin's path. unavailable: no library, or no MPI, naming what is missing. internal:
// MPI_Init failed.
Result<std::unique_ptr<Communicator>> join_mpi(const std::string& library);

}  // namespace pagoda
