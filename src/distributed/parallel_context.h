#pragma once
// ParallelContext: passed to code that runs on one rank of a tensor-parallel group: the group, and the
// timeout of its calls. Owns nothing.
#include "distributed/communicator.h"

namespace pagoda {

struct ParallelContext {
  Communicator* communicator = nullptr;  // null: the only process
  RankTimeout timeout{4'000};            // for one call inside a step
  // If true, ranks gather their parts instead of summing them: the same bits on any number of ranks as in one
  // process.
  bool deterministic = true;

  std::int32_t rank() const { return communicator == nullptr ? 0 : communicator->rank(); }
  std::int32_t size() const { return communicator == nullptr ? 1 : communicator->size(); }
};

}  // namespace pagoda
