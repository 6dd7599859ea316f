#pragma once
// ParallelContext: handed to whatever runs on one rank of a tensor-parallel group: the group, and how long to
// wait for it. Owns nothing.
#include "distributed/communicator.h"

namespace pagoda {

struct ParallelContext {
  Communicator* communicator = nullptr;  // null: this process is alone
  RankTimeout timeout{4'000};            // one call inside a step
  // Ranks gather what they bring instead of summing it: the bits of one process, on any number of ranks.
  bool deterministic = true;

  std::int32_t rank() const { return communicator == nullptr ? 0 : communicator->rank(); }
  std::int32_t size() const { return communicator == nullptr ? 1 : communicator->size(); }
};

}  // namespace pagoda
