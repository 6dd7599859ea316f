#pragma once
// Plain mixtures of experts: a choice for each row, pairs of row and choice sorted by expert, products of the
// pairs of one expert in tiles (as in linear.cuh), and their weighted sums. A row's result depends on the row
// alone: other rows that choose the same experts change which thread computes it, but not the order of a sum.
#include "device/kernels/dialect.cuh"
#include "device/kernels/launch_shapes.h"
#include "device/kernels/linear.cuh"

namespace pagoda::device::kernels {

struct Best {
  float value;
  int id;
};

// The better of two: the larger value, then the lower id. An id of -1 is worse than all.
__device__ __forceinline__ Best better(const Best& a, const Best& b) {
  if (a.id < 0 || b.id < 0) return a.id < 0 ? b : a;
  if (a.value != b.value) return a.value > b.value ? a : b;
  return a.id < b.id ? a : b;
}

// The best of ids lane, lane + 32, …. `value_of` returns an id's value, and `open` whether it may be chosen.
// Same result in all lanes.
template <class ValueOf, class Open>
__device__ __forceinline__ Best best_of(int count, const ValueOf& value_of, const Open& open) {
  Best best = {0, -1};
  for (int id = static_cast<int>(threadIdx.x); id < count; id += 32)
    if (open(id)) best = better(best, Best{value_of(id), id});
  for (int other = 16; other > 0; other /= 2) {
    Best theirs;
    theirs.value = __shfl_xor_sync(kAllLanes, best.value, other);
    theirs.id = __shfl_xor_sync(kAllLanes, best.id, other);
    best = better(best, theirs);
  }
  return best;
}

// One warp per row. Shared: route_shared_bytes().
__global__ void __launch_bounds__(32) route(RouteArgs args) {
  begin_kernel();
  PAGODA_SHARED(float, score);
  float* const rank = score + args.experts;
  float* const group_rank = rank + args.experts;
  int* const open_group = reinterpret_cast<int*>(group_rank + args.groups);
  int* const taken = open_group + args.groups;  // [experts]
  const int lane = static_cast<int>(threadIdx.x), size = args.experts / args.groups;
  if (args.num_rows != nullptr && static_cast<int>(blockIdx.x) >= *args.num_rows) {
    for (int i = lane; i < args.per_token; i += 32)
      args.chosen[static_cast<std::int64_t>(blockIdx.x) * args.per_token + i] = -1;
    return;
  }
  const float* const logits = args.logits + static_cast<std::int64_t>(blockIdx.x) * args.experts;
  float largest = -INFINITY, sum = 0;
  for (int i = lane; i < args.experts; i += 32) largest = logits[i] > largest ? logits[i] : largest;
  largest = warp_max(largest);
  for (int i = lane; i < args.experts; i += 32) {
    score[i] = args.score == Score::sigmoid   ? 1.0f / (1.0f + expf(-logits[i]))
               : args.score == Score::softmax ? expf(logits[i] - largest)
                                              : logits[i];
    sum += score[i];
  }
  sum = warp_sum(sum);
  for (int i = lane; i < args.experts; i += 32) {
    if (args.score == Score::softmax) score[i] /= sum;
    const float value = args.correction != nullptr ? score[i] + args.correction[i] : score[i];
    rank[i] = value == value ? value : -INFINITY;
    taken[i] = 0;
  }
  __syncwarp();
  for (int group = lane; group < args.groups; group += 32) {
    float first = -INFINITY, second = -INFINITY;
    for (int i = group * size; i < (group + 1) * size; ++i) {
      const float value = rank[i];
      second = value > first ? first : value > second ? value : second;
      first = value > first ? value : first;
    }
    group_rank[group] = args.best_two != 0 && size > 1 ? first + second : first;
    open_group[group] = args.groups_used >= args.groups ? 1 : 0;
  }
  __syncwarp();
  for (int i = 0; i < args.groups_used && args.groups_used < args.groups; ++i) {
    const Best best = best_of(
        args.groups, [&](int id) { return group_rank[id]; }, [&](int id) { return open_group[id] == 0; });
    __syncwarp();
    if (lane == 0) open_group[best.id] = 1;
    __syncwarp();
  }
  for (int i = 0; i < args.per_token; ++i) {
    const Best best = best_of(
        args.experts, [&](int id) { return rank[id]; },
        [&](int id) { return taken[id] == 0 && open_group[id / size] != 0; });
    __syncwarp();
    if (lane == 0) taken[best.id] = 1;
    __syncwarp();
  }
  // The chosen experts in ascending order; their scores replace the ranks, which are no longer needed.
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * args.per_token;
  float* const weights = args.weights + first;
  int count = 0;
  float top = -INFINITY;
  for (int base = 0; base < args.experts; base += 32) {
    const int i = base + lane;
    const bool is_taken = i < args.experts && taken[i] != 0;
    const unsigned lanes = __ballot_sync(kAllLanes, is_taken ? 1 : 0);
    const int place = count + __popc(lanes & ((1u << lane) - 1));
    if (is_taken) args.chosen[first + place] = i;
    if (is_taken && args.slots != nullptr) {
      args.slots[place] = place;
      args.tiles[place] = {i, place, place + 1};
    }
    if (is_taken) rank[place] = score[i];
    if (is_taken) top = score[i] > top ? score[i] : top;
    count += __popc(lanes);
  }
  top = warp_max(top);
  __syncwarp();
  for (int i = lane; i < count && args.score == Score::softmax_of_chosen; i += 32)
    rank[i] = expf(rank[i] - top);
  __syncwarp();
  float total = 0;
  for (int i = 0; i < count; ++i) total += rank[i];  // the same in all lanes
  const bool divide = args.renormalize != 0 || args.score == Score::softmax_of_chosen;
  for (int i = lane; i < count; i += 32) weights[i] = (divide ? rank[i] / total : rank[i]) * args.scale;
}

// The lanes with the same expert as this lane, found bit by bit; 0 for a lane without a pair.
__device__ __forceinline__ unsigned lanes_of_expert(int expert, bool there, int experts) {
  unsigned lanes = __ballot_sync(kAllLanes, there ? 1 : 0);
  for (int bit = 1; bit < experts; bit *= 2) {
    const unsigned set = __ballot_sync(kAllLanes, (expert & bit) != 0 ? 1 : 0);
    lanes &= (expert & bit) != 0 ? set : ~set;
  }
  return there ? lanes : 0;
}

// One block, whose warps have neighbouring pairs each. The warps count the pairs of each expert, the counts
// become positions, and each pair goes to the next position of its warp and expert. No value is added to by
// two threads. Shared: group_shared_bytes().
__global__ void __launch_bounds__(32 * kMostGroupWarps) group_pairs(GroupPairsArgs args) {
  begin_kernel();
  PAGODA_SHARED(int, counts);  // [warps][experts]; [experts]: pairs, and first tiles; and all pairs
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const int warps = static_cast<int>(blockDim.x / 32), experts = args.experts;
  int* const own = counts + warp * experts;
  int* const pairs_of = counts + warps * experts;
  int* const tiles_of = pairs_of + experts;
  int* const all_pairs = tiles_of + experts;
  const int each = ((args.pairs + 31) / 32 + warps - 1) / warps * 32;
  const int begin = warp * each, end = begin + each < args.pairs ? begin + each : args.pairs;
  const unsigned below = (1u << lane) - 1;
  const auto for_pairs = [&](const auto& place) {
    for (int first = begin; first < end; first += 32) {
      const int pair = first + lane;
      const int expert = pair < end ? args.chosen[pair] : -1;
      const bool there = expert >= 0;
      const unsigned lanes = lanes_of_expert(expert, there, experts);
      if (there) place(pair, own[expert] + __popc(lanes & below));
      __syncwarp();
      if (there && (lanes & below) == 0) own[expert] += __popc(lanes);
      __syncwarp();
    }
  };
  for (int expert = lane; expert < experts; expert += 32) own[expert] = 0;
  __syncwarp();
  for_pairs([](int, int) {});
  __syncthreads();
  // The counts of warps become positions among the expert's pairs.
  for (int expert = static_cast<int>(threadIdx.x); expert < experts; expert += static_cast<int>(blockDim.x)) {
    int sum = 0;
    for (int other = 0; other < warps; ++other) {
      const int count = counts[other * experts + expert];
      counts[other * experts + expert] = sum;
      sum += count;
    }
    pairs_of[expert] = sum;
  }
  __syncthreads();
  // Sums over the preceding experts, of pairs and of tiles.
  if (warp == 0) {
    int pairs = 0, tiles = 0;
    for (int first = 0; first < experts; first += 32) {
      const int expert = first + lane, count = expert < experts ? pairs_of[expert] : 0;
      int up_to = count, tiles_up_to = (count + kPairsOfTile - 1) / kPairsOfTile;
      const int own_tiles = tiles_up_to;
      for (unsigned distance = 1; distance < 32; distance *= 2) {
        const int a = __shfl_up_sync(kAllLanes, up_to, distance);
        const int b = __shfl_up_sync(kAllLanes, tiles_up_to, distance);
        if (lane >= static_cast<int>(distance)) up_to += a;
        if (lane >= static_cast<int>(distance)) tiles_up_to += b;
      }
      if (expert < experts) {
        pairs_of[expert] = pairs + up_to - count;
        tiles_of[expert] = tiles + tiles_up_to - own_tiles;
      }
      pairs += __shfl_sync(kAllLanes, up_to, 31);
      tiles += __shfl_sync(kAllLanes, tiles_up_to, 31);
    }
    const int all = (args.pairs + kPairsOfTile - 1) / kPairsOfTile + experts;
    const int most = all < args.pairs ? all : args.pairs;  // most_tiles()
    for (int tile = tiles + lane; tile < most; tile += 32) args.tiles[tile] = {-1, 0, 0};
    if (lane == 0) *all_pairs = pairs;
  }
  __syncthreads();
  for (int expert = static_cast<int>(threadIdx.x); expert < experts; expert += static_cast<int>(blockDim.x)) {
    const int first = pairs_of[expert], behind = expert + 1 < experts ? pairs_of[expert + 1] : *all_pairs;
    for (int at = first, tile = tiles_of[expert]; at < behind; at += kPairsOfTile, ++tile)
      args.tiles[tile] = {expert, at, at + kPairsOfTile < behind ? at + kPairsOfTile : behind};
    for (int other = 0; other < warps; ++other) counts[other * experts + expert] += first;
  }
  __syncthreads();
  for_pairs([&](int pair, int place) { args.slots[place] = pair; });
}

// grid: (tiles of n, most_tiles()); block and shared as in linear.
template <class T>
__device__ __forceinline__ void grouped_linear(const GroupedLinearArgs& args) {
  begin_kernel();
  const TileOfPairs pairs = args.tiles[blockIdx.y];
  if (pairs.expert < 0) return;
  const int slot = pairs.first + static_cast<int>(threadIdx.y);
  TileLine at = {nullptr, nullptr, 1};
  if (slot < pairs.behind) {
    const int pair = args.slots[slot];
    at.x = args.x + static_cast<std::int64_t>(pair / args.pairs_of_row) * args.k;
    at.y = args.y + static_cast<std::int64_t>(pair) * args.n;
    if (args.factors != nullptr) at.factor = args.factors[pair];
  }
  const std::int64_t row = static_cast<std::int64_t>(pairs.expert) * args.n;
  multiply_tile(at, stored_row(static_cast<const T*>(args.weight), row, args.k),
                args.bias != nullptr ? args.bias + row : nullptr, args.n, args.k, false);
}

__global__ void grouped_linear_f32(GroupedLinearArgs args) { grouped_linear<float>(args); }
__global__ void grouped_linear_bf16(GroupedLinearArgs args) { grouped_linear<Bf16>(args); }
__global__ void grouped_linear_q4(GroupedLinearArgs args) { grouped_linear<Quantized4>(args); }
__global__ void grouped_linear_q8(GroupedLinearArgs args) { grouped_linear<Quantized8>(args); }
__global__ void grouped_linear_q4_k(GroupedLinearArgs args) { grouped_linear<Quantized4K>(args); }
__global__ void grouped_linear_q5_k(GroupedLinearArgs args) { grouped_linear<Quantized5K>(args); }
__global__ void grouped_linear_q6_k(GroupedLinearArgs args) { grouped_linear<Quantized6K>(args); }
__global__ void grouped_linear_fp8(GroupedLinearArgs args) { grouped_linear<Float8>(args); }
__global__ void grouped_linear_fp8_blocks(GroupedLinearArgs args) { grouped_linear<Float8Blocks>(args); }
__global__ void grouped_linear_mxfp4(GroupedLinearArgs args) { grouped_linear<Float4>(args); }
__global__ void grouped_linear_nvfp4(GroupedLinearArgs args) { grouped_linear<Float4Scaled>(args); }

// One block per row.
__global__ void combine(CombineArgs args) {
  begin_kernel();
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x);
  const float* const x = args.x + row * args.per_token * args.width;
  float* const y = args.y + row * args.width;
  for (int i = static_cast<int>(threadIdx.x); i < args.width; i += static_cast<int>(blockDim.x)) {
    float sum = 0;
    for (int j = 0; j < args.per_token; ++j) {
      const float weight = args.weights != nullptr ? args.weights[row * args.per_token + j] : 1.0f;
      sum = fmaf(weight, x[static_cast<std::int64_t>(j) * args.width + i], sum);
    }
    y[i] = args.accumulate != 0 ? y[i] + sum : sum;
  }
}

}  // namespace pagoda::device::kernels
