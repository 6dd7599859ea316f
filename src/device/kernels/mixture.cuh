#pragma once
// Mixtures of experts in their plain form: a choice for each row, pairs of row and choice sorted by expert,
// products of the pairs of one expert in tiles (as linear.cuh), and their weighted sums. A row's result
// depends on the row alone: which other rows have chosen its experts changes who computes it, not the order
// of a sum.
#include "device/kernels/dialect.cuh"
#include "device/kernels/launch_shapes.h"
#include "device/kernels/linear.cuh"

namespace pagoda::device::kernels {

struct Best {
  float value;
  int id;
};

// The better of two: the larger, then the lower id. An id of -1 is worse than all.
__device__ __forceinline__ Best better(const Best& a, const Best& b) {
  if (a.id < 0 || b.id < 0) return a.id < 0 ? b : a;
  if (a.value != b.value) return a.value > b.value ? a : b;
  return a.id < b.id ? a : b;
}

// The best of ids lane, lane + 32, …, `value_of` giving an id's worth, and `open` whether it may be chosen;
// the same in all lanes.
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

// A warp a row. Shared: route_shared_bytes().
__global__ void __launch_bounds__(32) route(RouteArgs args) {
  PAGODA_SHARED(float, score);
  float* const rank = score + args.experts;
  float* const group_rank = rank + args.experts;
  int* const open_group = reinterpret_cast<int*>(group_rank + args.groups);
  int* const taken = open_group + args.groups;  // [experts]
  const int lane = static_cast<int>(threadIdx.x), size = args.experts / args.groups;
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
  if (lane != 0) return;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * args.per_token;
  int* const chosen = args.chosen + first;
  float* const weights = args.weights + first;
  int count = 0;
  float top = -INFINITY, total = 0;
  for (int i = 0; i < args.experts; ++i) {
    if (taken[i] == 0) continue;
    chosen[count] = i;
    weights[count++] = score[i];
    top = score[i] > top ? score[i] : top;
  }
  for (int i = 0; i < count; ++i) {
    if (args.score == Score::softmax_of_chosen) weights[i] = expf(weights[i] - top);
    total += weights[i];
  }
  const bool divide = args.renormalize != 0 || args.score == Score::softmax_of_chosen;
  for (int i = 0; i < count; ++i) weights[i] = (divide ? weights[i] / total : weights[i]) * args.scale;
}

// One block. Shared: an int an expert and one more.
__global__ void group_pairs(GroupPairsArgs args) {
  PAGODA_SHARED(int, starts);
  const int first = static_cast<int>(threadIdx.x), step = static_cast<int>(blockDim.x);
  for (int expert = first; expert < args.experts; expert += step) {
    int count = 0;
    for (int pair = 0; pair < args.pairs; ++pair) count += args.chosen[pair] == expert ? 1 : 0;
    starts[expert + 1] = count;
  }
  __syncthreads();
  if (first == 0) {
    starts[0] = 0;
    for (int expert = 0; expert < args.experts; ++expert) starts[expert + 1] += starts[expert];
  }
  __syncthreads();
  for (int expert = first; expert < args.experts; expert += step) {
    int slot = starts[expert];
    for (int pair = 0; pair < args.pairs; ++pair)
      if (args.chosen[pair] == expert) args.slots[slot++] = pair;
  }
  for (int i = first; i <= args.experts; i += step) args.starts[i] = starts[i];
}

// The `tile`-th of the tiles of `rows` pairs that all experts have; expert == args.experts: there is none.
struct PairsOfTile {
  int expert, first, behind;  // in slots
};
__device__ __forceinline__ PairsOfTile pairs_of_tile(const GroupedLinearArgs& args, int tile, int rows) {
  for (int expert = 0; expert < args.experts; ++expert) {
    const int first = args.starts[expert], behind = args.starts[expert + 1];
    const int tiles = (behind - first + rows - 1) / rows;
    if (tile < tiles) return {expert, first + tile * rows, behind};
    tile -= tiles;
  }
  return {args.experts, 0, 0};
}

// grid: (tiles of n, tiles of all experts' pairs, at most: pairs / tile + experts); block and shared as
// linear.
template <class T>
__device__ __forceinline__ void grouped_linear(const GroupedLinearArgs& args) {
  const PairsOfTile pairs = pairs_of_tile(args, static_cast<int>(blockIdx.y), kLinearTile);
  if (pairs.expert == args.experts) return;
  const int slot = pairs.first + static_cast<int>(threadIdx.y);
  TileLine at = {nullptr, nullptr, 1};
  if (slot < pairs.behind) {
    const int pair = args.slots[slot];
    at.x = args.x + static_cast<std::int64_t>(pair / args.pairs_of_row) * args.k;
    at.y = args.y + static_cast<std::int64_t>(pair) * args.n;
    if (args.factors != nullptr) at.factor = args.factors[pair];
  }
  const std::int64_t row = static_cast<std::int64_t>(pairs.expert) * args.n;
  multiply_tile(at, rows_further(static_cast<const T*>(args.weight), row, args.k),
                args.bias != nullptr ? args.bias + row : nullptr, args.n, args.k, false);
}

__global__ void grouped_linear_f32(GroupedLinearArgs args) { grouped_linear<float>(args); }
__global__ void grouped_linear_bf16(GroupedLinearArgs args) { grouped_linear<Bf16>(args); }
__global__ void grouped_linear_q4(GroupedLinearArgs args) { grouped_linear<Quantized4>(args); }
__global__ void grouped_linear_q8(GroupedLinearArgs args) { grouped_linear<Quantized8>(args); }

// A block a row.
__global__ void combine(CombineArgs args) {
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
