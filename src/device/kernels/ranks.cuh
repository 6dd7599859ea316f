#pragma once
// Combines the parts of ranks on several devices (rank_args.h). grid.x: rows; for meet_ranks one warp in all.
#include "device/kernels/rank_args.h"
#include "device/kernels/rank_words.cuh"

namespace pagoda::device::kernels {

// The half of a rank's window for round `round`.
__device__ __forceinline__ float* half_of(WindowWords* window, std::int64_t half, std::uint32_t round) {
  float* const floats = reinterpret_cast<float*>(window) + kWordsOfWindow;
  return floats + static_cast<std::int64_t>(round % 2) * half;
}

__global__ void share_rows(ShareRowsArgs args) {
  begin_kernel();
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x);
  WindowWords* const own = args.group.own;
  float* const to = half_of(own, args.group.half, own->rounds) + row * args.width;
  const float* const from = args.rows.data + row * args.rows.stride;
  for (int i = static_cast<int>(threadIdx.x); i < args.width; i += static_cast<int>(blockDim.x))
    to[i] = from[i];
}

// One lane per rank: tells it that this rank has arrived, and waits for it. All ranks are told before any is
// waited for.
__global__ void meet_ranks(MeetRanksArgs args) {
  begin_kernel();
  const int other = static_cast<int>(threadIdx.x);
  WindowWords *const own = args.group.own, *there = nullptr;
#pragma unroll
  for (int rank = 0; rank < kMostRanks; ++rank)
    if (rank == other && rank < args.group.size && rank != args.group.rank) there = args.group.words[rank];
  const std::uint32_t round = own->rounds + 1;
  if (own->lost != 0) there = nullptr;
  if (there != nullptr) store_for_ranks(&there->arrived[args.group.rank], round);
  __syncwarp();
  bool came = true;
  if (there != nullptr) {
    std::uint64_t waited = 0, last = nanoseconds();
    while (static_cast<std::int32_t>(load_of_ranks(&own->arrived[other]) - round) < 0) {
      const std::uint64_t now = nanoseconds();
      waited += now - last < kPieceOfWaiting ? now - last : kPieceOfWaiting;
      last = now;
      came = args.patience == 0 || waited < args.patience;
      if (!came) break;
      rest();
    }
  }
  const unsigned missing = __ballot_sync(kAllLanes, came ? 0 : 1);
  if (other != 0) return;
  own->rounds = round;
  for (int rank = 0; rank < args.group.size && missing != 0; ++rank)
    if ((missing >> rank & 1u) != 0) own->lost = static_cast<std::uint32_t>(rank) + 1;
}

// Loops over the maximum number of ranks are unrolled: arguments at known indices need no local memory.
__global__ void collect_rows(CollectRowsArgs args) {
  begin_kernel();
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x);
  const std::uint32_t round = args.group.own->rounds - 1;
  float* const out = args.out.data + row * args.out.stride;
  int first = 0;
#pragma unroll
  for (int rank = 0; rank < kMostRanks; ++rank) {
    if (rank >= args.group.size) continue;
    const int width = args.ends[rank] - first;
    const float* const part = half_of(args.group.words[rank], args.group.half, round) + row * width;
    for (int i = static_cast<int>(threadIdx.x); i < width; i += static_cast<int>(blockDim.x))
      out[first + i] = part[i];
    first = args.ends[rank];
  }
}

__global__ void sum_rows(SumRowsArgs args) {
  begin_kernel();
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x);
  const std::uint32_t round = args.group.own->rounds - 1;
  float* const out = args.out.data + row * args.out.stride;
  for (int i = static_cast<int>(threadIdx.x); i < args.width; i += static_cast<int>(blockDim.x)) {
    float sum = 0;
#pragma unroll
    for (int rank = 0; rank < kMostRanks; ++rank)
      if (rank < args.group.size)
        sum += half_of(args.group.words[rank], args.group.half, round)[row * args.width + i];
    out[i] = sum;
  }
}

// One warp.
__global__ void count_exchange(CountExchangeArgs args) {
  begin_kernel();
  if (threadIdx.x != 0) return;
  const std::uint32_t count = *args.count + 1;
  *args.count = count;
  store_for_ranks(args.told, count);
}

}  // namespace pagoda::device::kernels
