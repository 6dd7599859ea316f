#pragma once
// Starts the other ranks of a group on this machine by fork, and looks after them. The caller goes on as rank
// 0; each child returns from the same call as another rank and must end with _exit().
//
// No rank outlives another by much: children die with the thread that forked them (PDEATHSIG), rank 0 sees a
// dead child while it waits, and kills what is left when its communicator goes. A child that waits in vain
// for a stopped rank 0 kills it: nobody else could end it.
// Threads: call it before any other thread exists, from a thread that lives as long as the ranks.
#include <memory>

#include "distributed/communicator.h"

namespace pagoda {

// invalid_argument: a bad size. internal: threads exist already, or fork failed.
Result<std::unique_ptr<Communicator>> start_local_ranks(std::int32_t size);

}  // namespace pagoda
