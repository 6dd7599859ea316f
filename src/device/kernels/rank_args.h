#pragma once
// Arguments of the kernels by which ranks on several devices bring their parts of a row together (ranks.cuh,
// rank_launches.h). A group's rank writes its part into its own window, meets the others, and reads theirs.
// Windows have two halves, used by turns: who has met the others once more knows that all have read the half
// of the time before. Which half it is says the number of the round, in memory, so that a launch with the
// same arguments may be repeated.
#include <cstdint>

#include "device/kernels/layer_args.h"

namespace pagoda::device {

inline constexpr std::int32_t kMostRanks = 8;
inline constexpr std::int32_t kWordsOfWindow = 64;  // 256 bytes

// In front of a window's floats. arrived[r]: for how many rounds rank r has arrived; rounds: for how many the
// window's own rank has met the others; lost: 0, or 1 + a rank that did not come in time: then nobody is
// waited for any more.
struct WindowWords {
  std::uint32_t arrived[kMostRanks];
  std::uint32_t rounds, lost;
};
static_assert(sizeof(WindowWords) <= kWordsOfWindow * sizeof(std::uint32_t));

struct RankGroup {
  WindowWords* words[kMostRanks] = {};  // each rank's, as this rank reaches it; the floats are behind them
  WindowWords* own = nullptr;           // this rank's
  std::int32_t rank = 0, size = 1;
  std::int64_t half = 0;  // floats
};

// The rank's own part of some rows, into its window.
struct ShareRowsArgs {
  RankGroup group = {};
  StridedRows rows = {};
  std::int32_t width = 0;
};

// Until all have arrived. patience: nanoseconds; 0: for ever. Time is counted in pieces of at most
// kPieceOfWaiting, so that a machine that was suspended does not look like a rank that hangs.
inline constexpr std::uint64_t kPieceOfWaiting = 10'000'000;
struct MeetRanksArgs {
  RankGroup group = {};
  std::uint64_t patience = 0;
};

// The rows of all ranks: rank r has columns ends[r - 1] to ends[r].
struct CollectRowsArgs {
  RankGroup group = {};
  StridedRows out = {};
  std::int32_t ends[kMostRanks] = {};
};

// out = the sum over all ranks, in their order, of rows as wide as `width`.
struct SumRowsArgs {
  RankGroup group = {};
  StridedRows out = {};
  std::int32_t width = 0;
};

// One more exchange by the device's library has run (../collectives.h): `count` goes up by one, and the host
// is told.
struct CountExchangeArgs {
  std::uint32_t *count = nullptr, *told = nullptr;
};

}  // namespace pagoda::device
