#pragma once
// Arguments of the kernels that combine the parts of rows held by ranks on several devices (ranks.cuh,
// layer_launches.h). Each rank writes its part into its own window, meets the other ranks, and reads their
// windows. Windows have two halves, used alternately: once a rank has met the others again, all of them have
// read the half of the previous round. The half in use follows from the number of the round, which is in
// memory, so that a launch can be repeated with the same arguments.
#include <cstdint>

#include "device/kernels/layer_args.h"

namespace pagoda::device {

inline constexpr std::int32_t kMostRanks = 8;
inline constexpr std::int32_t kWordsOfWindow = 64;  // 256 bytes

// Precedes a window's floats. arrived[r]: number of rounds for which rank r has arrived; rounds: number of
// rounds in which the window's own rank has met the others; lost: 0, or 1 + a rank that did not arrive in
// time: from then on no rank is waited for.
struct WindowWords {
  std::uint32_t arrived[kMostRanks];
  std::uint32_t rounds, lost;
};
static_assert(sizeof(WindowWords) <= kWordsOfWindow * sizeof(std::uint32_t));

struct RankGroup {
  WindowWords* words[kMostRanks] = {};  // each rank's, at the address this rank uses; the floats follow
  WindowWords* own = nullptr;           // this rank's
  std::int32_t rank = 0, size = 1;
  std::int64_t half = 0;  // floats
};

// Writes the rank's own part of some rows into its window.
struct ShareRowsArgs {
  RankGroup group = {};
  StridedRows rows = {};
  std::int32_t width = 0;
};

// Waits until all ranks have arrived. patience: nanoseconds; 0: no limit. Time is counted in pieces of at
// most kPieceOfWaiting, so that a machine that was suspended does not look like a rank that hangs.
inline constexpr std::uint64_t kPieceOfWaiting = 10'000'000;
struct MeetRanksArgs {
  RankGroup group = {};
  std::uint64_t patience = 0;
};

// The complete rows, from all ranks: rank r has columns ends[r - 1] to ends[r].
struct CollectRowsArgs {
  RankGroup group = {};
  StridedRows out = {};
  std::int32_t ends[kMostRanks] = {};
};

// out = the sum over all ranks, in rank order, of rows of `width` floats.
struct SumRowsArgs {
  RankGroup group = {};
  StridedRows out = {};
  std::int32_t width = 0;
};

// Reports that one more exchange by the device's library has run (../collectives.h): increments `count` and
// publishes it to the host in `told`.
struct CountExchangeArgs {
  std::uint32_t *count = nullptr, *told = nullptr;
};

}  // namespace pagoda::device
