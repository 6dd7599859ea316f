#pragma once
// PoolEvent: one event concerning the blocks of the KV pool. Plain data: the engine records it,
// engine/journal.h keeps the latest ones, /debug and live views read them. Threads: the engine thread.
#include <cstdint>

#include "request/ids.h"

namespace pagoda {

enum class PoolEventKind : std::uint8_t {
  allocate,  // a free block is given to `sequence`
  free,      // `sequence` releases a block, which now has no references
  evict,     // an unreferenced cached block loses its content
  hit,       // `sequence` reuses a cached block
  fork,      // `sequence` is new and shares all blocks of another; `block` is kNone
  copy,      // `block` is copied to `to` before a write
  swap_out,  // `block` moves to swap block `to`
  swap_in,   // swap block `to` moves back to `block`
  preempt,   // `sequence` has lost all of its blocks; `block` is kNone
};

struct PoolEvent {
  static constexpr std::int32_t kNone = -1;
  PoolEventKind kind = PoolEventKind::allocate;
  SequenceId sequence{};  // 0: not specific to one sequence
  std::int32_t block = kNone, to = kNone;
  std::int32_t count = 1;  // blocks `block`, `block` + 1, …
};

}  // namespace pagoda
