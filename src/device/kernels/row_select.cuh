#pragma once
// Base of sampling and scores: a block goes through a row of logits and sums, finds the k-th largest, or
// lists the largest. All sums are of integers, so that no result depends on the number of threads. They go
// from lanes to warps to the block by shuffles, without atomics. Each warp has a run of neighbouring tokens,
// and its lanes every 32nd of them, so that loads are coalesced and sums of warps are sums of neighbours. A
// search only visits tokens that can matter if they fit into shared memory (list_tokens). block:
// sample_threads(); shared: select_shared_bytes().
#include "device/kernels/dialect.cuh"
#include "device/kernels/launch_shapes.h"

namespace pagoda::device::kernels {

using Weight = unsigned long long;

// Larger floats have larger keys, and equal ones the same key: +0 and -0 are equal. NaN counts as -infinity.
__device__ __forceinline__ unsigned order_key(float x) {
  const unsigned bits = __float_as_uint(x == x ? x + 0.0f : -INFINITY);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float of_key(unsigned key) {
  return __uint_as_float((key & 0x80000000u) != 0 ? key & 0x7FFFFFFFu : ~key);
}

__device__ __forceinline__ int lane_of_warp() { return static_cast<int>(threadIdx.x % 32); }
__device__ __forceinline__ int warp_of_block() { return static_cast<int>(threadIdx.x / 32); }
__device__ __forceinline__ int warps_of_block() { return static_cast<int>(blockDim.x / 32); }

// Shared memory of the block: two lines with a number per warp, used alternately, so that a sum needs only
// one barrier; and the list of tokens.
struct Select {
  Weight* lines;  // [2][kSelectSums][32]
  int* tokens;    // [kListedOfThread * threads]
  float* logits;  // [kListedOfThread * threads]
  int turn;
};

__device__ __forceinline__ Select begin_select() {
  PAGODA_SHARED(Weight, shared);
  int* const tokens = reinterpret_cast<int*>(shared + 2 * kSelectSums * 32);
  const int capacity = kListedOfThread * static_cast<int>(blockDim.x);
  return {shared, tokens, reinterpret_cast<float*>(tokens + capacity), 0};
}

struct Plus {
  __device__ __forceinline__ Weight operator()(Weight a, Weight b) const { return a + b; }
};
struct Larger {
  __device__ __forceinline__ Weight operator()(Weight a, Weight b) const { return a > b ? a : b; }
};

// Combines x of all threads; all threads receive the result. 0 is the neutral element of `both`.
template <int count, class Join>
__device__ __forceinline__ void join(Select& select, Weight (&x)[count], const Join& both) {
  static_assert(count <= kSelectSums);
  const int lane = lane_of_warp(), warps = warps_of_block();
  for (int other = 16; other > 0; other /= 2)
#pragma unroll
    for (int i = 0; i < count; ++i) x[i] = both(x[i], __shfl_xor_sync(kAllLanes, x[i], other));
  Weight* const line = select.lines + select.turn * kSelectSums * 32;
  select.turn ^= 1;
  if (lane == 0)
#pragma unroll
    for (int i = 0; i < count; ++i) line[32 * i + warp_of_block()] = x[i];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < count; ++i) x[i] = lane < warps ? line[32 * i + lane] : 0;
  for (int other = 16; other > 0; other /= 2)
#pragma unroll
    for (int i = 0; i < count; ++i) x[i] = both(x[i], __shfl_xor_sync(kAllLanes, x[i], other));
}

__device__ __forceinline__ Weight sum_of_block(Select& select, Weight x) {
  Weight one[1] = {x};
  join(select, one, Plus{});
  return one[0];
}
__device__ __forceinline__ Weight largest_of_block(Select& select, Weight x) {
  Weight one[1] = {x};
  join(select, one, Larger{});
  return one[0];
}

// The sum over all lanes, returned in each.
__device__ __forceinline__ Weight sum_of_warp(Weight x) {
  for (int other = 16; other > 0; other /= 2) x += __shfl_xor_sync(kAllLanes, x, other);
  return x;
}
// The sum of the lanes up to this one, inclusive.
__device__ __forceinline__ Weight sum_up_to_lane(Weight x) {
  for (unsigned distance = 1; distance < 32; distance *= 2) {
    const Weight below = __shfl_up_sync(kAllLanes, x, distance);
    if (lane_of_warp() >= static_cast<int>(distance)) x += below;
  }
  return x;
}

// The sum over the preceding warps; `total`: over all warps. x is the same in each lane of a warp.
__device__ __forceinline__ Weight sum_before_warp(Select& select, Weight x, Weight& total) {
  const int lane = lane_of_warp(), warp = warp_of_block();
  Weight* const line = select.lines + select.turn * kSelectSums * 32;
  select.turn ^= 1;
  if (lane == 0) line[warp] = x;
  __syncthreads();
  const Weight up_to = sum_up_to_lane(lane < warps_of_block() ? line[lane] : 0);
  total = __shfl_sync(kAllLanes, up_to, 31);
  const Weight before = __shfl_sync(kAllLanes, up_to, warp > 0 ? warp - 1 : 0);
  return warp > 0 ? before : 0;
}

// The tokens to visit: a whole row, or those that were listed, in ascending order.
struct RowTokens {
  const float* logits;
  int count;
  __device__ __forceinline__ int token(int i) const { return i; }
};
struct ListedTokens {
  const float* logits;
  const int* tokens;
  int count;
  __device__ __forceinline__ int token(int i) const { return tokens[i]; }
};

// A warp's run. It has whole steps of 32, the last of which may extend beyond the end.
struct WarpRun {
  int first, end, behind;  // behind: end, rounded up to a step
};
__device__ __forceinline__ WarpRun run_of_warp(int count) {
  const int each = ((count + 31) / 32 + warps_of_block() - 1) / warps_of_block() * 32;
  const int first = warp_of_block() * each;
  if (first >= count) return {count, count, count};
  const int end = first + each < count ? first + each : count;
  return {first, end, first + (end - first + 31) / 32 * 32};
}

// Calls each(i) for this thread's tokens of `count`.
template <class Each>
__device__ __forceinline__ void for_tokens(int count, const Each& each) {
  const WarpRun run = run_of_warp(count);
#pragma unroll 8
  for (int i = run.first + lane_of_warp(); i < run.end; i += 32) each(i);
}

// The largest key that at least `k` of the keys given by `for_keys` reach; 0 if there are fewer. Finds two
// bits at a time. Counts: below 2^21.
template <class ForKeys>
__device__ __forceinline__ unsigned kth_key(Select& select, Weight k, const ForKeys& for_keys) {
  unsigned found = 0;
  for (int shift = 30; shift >= 0; shift -= 2) {
    unsigned counts[3] = {0, 0, 0};
    for_keys([&](unsigned key) {
#pragma unroll
      for (unsigned i = 0; i < 3; ++i) counts[i] += key >= (found | (i + 1) << shift) ? 1u : 0u;
    });
    const Weight all = sum_of_block(
        select, counts[0] | static_cast<Weight>(counts[1]) << 21 | static_cast<Weight>(counts[2]) << 42);
    constexpr Weight kCount = (Weight{1} << 21) - 1;
    const unsigned digit = (all >> 42) >= k            ? 3u
                           : (all >> 21 & kCount) >= k ? 2u
                           : (all & kCount) >= k       ? 1u
                                                       : 0u;
    found |= digit << shift;
  }
  return found;
}
template <class Tokens>
__device__ __forceinline__ unsigned kth_key_of(Select& select, const Tokens& from, Weight k) {
  return kth_key(select, k, [&](const auto& each) {
    for_tokens(from.count, [&](int i) { each(order_key(from.logits[i])); });
  });
}

// A thread's first token among its largest logits: the key in the high bits, the complement of the token in
// the low bits. 0: none.
__device__ __forceinline__ Weight best_of_thread(const RowTokens& row) {
  Weight best = 0;
  for_tokens(row.count, [&](int i) {
    const Weight here =
        static_cast<Weight>(order_key(row.logits[i])) << 32 | (0xFFFFFFFFu - static_cast<unsigned>(i));
    best = here > best ? here : best;
  });
  return best;
}
__device__ __forceinline__ unsigned key_of(Weight best) { return static_cast<unsigned>(best >> 32); }
__device__ __forceinline__ int token_of(Weight best) {
  return static_cast<int>(0xFFFFFFFFu - static_cast<unsigned>(best));
}

// Likewise for one key per thread, 0 if it has none: each bit costs only one barrier. Not the largest such
// key, but one that the same threads reach, if exactly `k` do.
__device__ __forceinline__ unsigned kth_key_of_threads(unsigned own, int k) {
  unsigned found = 0;
  for (int shift = 31; shift >= 0; --shift) {
    const unsigned bit = found | 1u << shift;
    const int count = __syncthreads_count(own >= bit ? 1 : 0);
    if (count >= k) found = bit;
    if (count == k) break;
  }
  return found;
}

// The largest logit of a group of tokens, in the format of best_of_thread(); same result in all lanes.
__device__ __forceinline__ Weight best_of_group(const float* logits, int group, int vocabulary) {
  const int size = group_tokens(vocabulary), first = group * size;
  const int end = first + size < vocabulary ? first + size : vocabulary;
  Weight best = 0;
#pragma unroll 4
  for (int i = first + lane_of_warp(); i < end; i += 32) {
    const Weight here =
        static_cast<Weight>(order_key(logits[i])) << 32 | (0xFFFFFFFFu - static_cast<unsigned>(i));
    best = here > best ? here : best;
  }
  for (int other = 16; other > 0; other /= 2) {
    const Weight there = __shfl_xor_sync(kAllLanes, best, other);
    best = there > best ? there : best;
  }
  return best;
}

// A key reached by the best tokens of `k` threads, and so by at least `k` tokens; for randomly distributed
// tokens by few more.
__device__ __forceinline__ unsigned reached_by(Select& select, Weight best_of_thread, Weight k) {
  return kth_key(select, k, [&](const auto& each) { each(key_of(best_of_thread)); });
}

// Visits the tokens of `from` with keys from `bound` to `last`, in order: put(place, i). Places from
// `capacity` on are skipped. Returns the number of all of them.
template <class Tokens, class Put>
__device__ __forceinline__ int gather(Select& select, const Tokens& from, unsigned bound, unsigned last,
                                      int capacity, const Put& put) {
  unsigned own = 0;
  for_tokens(from.count, [&](int i) {
    const unsigned key = order_key(from.logits[i]);
    own += key >= bound && key <= last ? 1u : 0u;
  });
  Weight total = 0;
  const Weight of_warp = sum_of_warp(own);
  int at = static_cast<int>(sum_before_warp(select, of_warp, total));
  const WarpRun run = run_of_warp(from.count);
  if (of_warp == 0 || at >= capacity) return static_cast<int>(total);
  for (int first = run.first; first < run.behind; first += 32) {
    const int i = first + lane_of_warp();
    const unsigned key = i < run.end ? order_key(from.logits[i]) : 0;
    const bool is_in = i < run.end && key >= bound && key <= last;
    const unsigned lanes = __ballot_sync(kAllLanes, is_in ? 1 : 0);
    const int place = at + __popc(lanes & ((1u << lane_of_warp()) - 1));
    if (is_in && place < capacity) put(place, i);
    at += __popc(lanes);
  }
  return static_cast<int>(total);
}

// The tokens with keys from `bound` on. If they do not fit, the count exceeds the capacity.
__device__ __forceinline__ ListedTokens list_tokens(Select& select, const RowTokens& row, unsigned bound) {
  const int count = gather(select, row, bound, 0xFFFFFFFFu, kListedOfThread * static_cast<int>(blockDim.x),
                           [&](int place, int i) {
                             select.tokens[place] = i;
                             select.logits[place] = row.logits[i];
                           });
  __syncthreads();
  return {select.logits, select.tokens, count};
}
// Likewise if each thread knows the best of a group of tokens (0 if it has none): visits only groups that
// reach the bound. They are listed first, in `hits`, and then the warps share them.
__device__ __forceinline__ ListedTokens list_groups(Select& select, const RowTokens& row, Weight best_of_own,
                                                    unsigned bound, int* hits) {
  const int lane = lane_of_warp(), warps = warps_of_block(), capacity = kListedOfThread * 32 * warps;
  const unsigned below = (1u << lane) - 1;
  const bool is_hit = best_of_own != 0 && key_of(best_of_own) >= bound;
  const unsigned lanes = __ballot_sync(kAllLanes, is_hit ? 1 : 0);
  Weight total = 0;
  const Weight before = sum_before_warp(select, static_cast<Weight>(__popc(lanes)), total);
  if (is_hit) hits[static_cast<int>(before) + __popc(lanes & below)] = static_cast<int>(threadIdx.x);
  __syncthreads();
  const int all = static_cast<int>(total), each = (all + warps - 1) / warps, size = group_tokens(row.count);
  const int begin = warp_of_block() * each, end = begin + each < all ? begin + each : all;
  const auto for_steps = [&](const auto& step) {
    for (int hit = begin; hit < end; ++hit) {
      const int first = hits[hit] * size;
#pragma unroll 4
      for (int i = first + lane; i < first + size; i += 32) {
        const float logit = i < row.count ? row.logits[i] : 0;
        step(i, logit, i < row.count && order_key(logit) >= bound);
      }
    }
  };
  Weight own = 0;
  for_steps([&](int, float, bool is_in) {
    own += static_cast<Weight>(__popc(__ballot_sync(kAllLanes, is_in ? 1 : 0)));
  });
  int at = static_cast<int>(sum_before_warp(select, own, total));
  for_steps([&](int i, float logit, bool is_in) {
    const unsigned in = __ballot_sync(kAllLanes, is_in ? 1 : 0);
    const int place = at + __popc(in & below);
    if (is_in && place < capacity) {
      select.tokens[place] = i;
      select.logits[place] = logit;
    }
    at += __popc(in);
  });
  __syncthreads();
  return {select.logits, select.tokens, static_cast<int>(total)};
}
__device__ __forceinline__ bool fits(const ListedTokens& list) {
  return list.count <= kListedOfThread * static_cast<int>(blockDim.x);
}

// A logit's weight in a softmax, in units of 2^-40, at most one less than the whole.
constexpr int kWeightBits = 40;
__device__ __forceinline__ Weight weight_of(float logit, float largest, float scale) {
  const float weight = expf((logit - largest) * scale) * 1099511627776.0f;  // 2^40
  constexpr Weight kMost = (Weight{1} << kWeightBits) - 1;
  return weight >= 1099511627776.0f ? kMost : static_cast<Weight>(weight);
}

}  // namespace pagoda::device::kernels
