#pragma once
// Starts the other ranks of a group on this machine by fork, and supervises them. The caller continues as
// rank 0; each child returns from the same call as another rank and must end with _exit().
//
// No rank outlives another for long: children die with the thread that forked them (PDEATHSIG); rank 0
// notices a dead child while it waits, and kills the remaining children when its communicator is destroyed. A
// child whose wait for a stopped rank 0 times out kills it, since no other process could end it.
// Threads: call before any other thread exists, from a thread that lives as long as the ranks.
#include <memory>

#include "distributed/communicator.h"

namespace pagoda {

// invalid_argument: invalid size. internal: other threads exist, or fork failed.
Result<std::unique_ptr<Communicator>> start_local_ranks(std::int32_t size);

}  // namespace pagoda
