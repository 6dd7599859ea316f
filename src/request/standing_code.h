#pragma once
// StandingCode: why a request is where it is. Plain data.
#include <cstdint>

namespace pagoda {

enum class StandingCode : std::uint8_t {
  running,
  parked,          // it runs, and some of its sequences wait for blocks
  swapped_blocks,  // swapped out; waits for blocks
  swapped_turn,    // swapped out; others come back first
  before,          // others are before it
  swapped_first,   // swapped-out requests come back before anyone else
  gang_first,      // a preempted request brings its sequences back first
  sequences,       // max_num_seqs
  adapters,        // --max-loras
  blocks,          // it needs more blocks than are free
  budget,          // its turn under the step's budget of tokens
  batch,           // the batch runs to its end first
  arriving,        // its prompt's K/V comes from a tier
};

}  // namespace pagoda
