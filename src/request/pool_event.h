#pragma once
// PoolEvent: one thing that happens to the blocks of the KV pool. Plain data: the engine records it,
// engine/journal.h keeps the latest, /debug and live views read them. Threads: the engine thread.
#include <cstdint>

#include "request/ids.h"

namespace pagoda {

enum class PoolEventKind : std::uint8_t {
  allocate,  // a free block goes to `sequence`
  free,      // `sequence` gives a block back: nobody holds it now
  evict,     // a cached block that nobody holds loses its content
  hit,       // `sequence` takes a cached block
  fork,      // `sequence` is new and shares all blocks of another; `block` is none
  copy,      // block to `to`, before a write
  swap_out,  // block to the swap space's `to`
  swap_in,   // the swap space's `to` to block
  preempt,   // `sequence` has lost all of its blocks; `block` is none
};

struct PoolEvent {
  static constexpr std::int32_t kNone = -1;
  PoolEventKind kind = PoolEventKind::allocate;
  SequenceId sequence{};  // 0: of no one sequence
  std::int32_t block = kNone, to = kNone;
  std::int32_t count = 1;  // `block` and the next ones
};

}  // namespace pagoda
