#pragma once
// StandingCode: the reason for a request's current state. Plain data.
#include <cstdint>

namespace pagoda {

enum class StandingCode : std::uint8_t {
  running,
  parked,          // running, but some of its sequences wait for blocks
  swapped_blocks,  // swapped out; waits for blocks
  swapped_turn,    // swapped out; other groups return first
  before,          // other requests are ahead of it
  swapped_first,   // swapped-out requests return before waiting ones are admitted
  gang_first,      // a preempted request resumes its remaining sequences first
  sequences,       // limited by max_num_seqs
  adapters,        // limited by --max-loras
  blocks,          // needs more blocks than are free
  budget,          // waits for its turn under the step's token budget
  batch,           // the current batch has to finish first
  arriving,        // its prompt's K/V is being fetched from a tier
};

}  // namespace pagoda
