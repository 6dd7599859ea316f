#pragma once
// Sampling: a block of kSampleThreads threads a row of logits. What a draw gives is the same in every batch
// and on every device: weights are whole numbers (exp in 2^-40), so that their sums do not depend on an
// order, and cuts and draws are exact. Meaning and order of the parameters are sampler/'s.
//   threshold   the least logit that top_k and min_p leave: a select by digits, most significant first
//   edge        the least weight that top_p leaves, and how many of those that have it: the same over weights
//   draw        inverse CDF over tokens in ascending order at (seed, stream, position)
// Each thread has a run of neighbouring tokens, so that sums of threads are sums of neighbours.
#include "device/kernels/dialect.cuh"
#include "device/kernels/launch_shapes.h"

namespace pagoda::device::kernels {

using Weight = unsigned long long;
constexpr int kWeightBits = 40, kDigitBits = 8, kDigits = 1 << kDigitBits;
static_assert(kSampleThreads == kDigits);

// Larger floats have larger keys. NaN is as -infinity.
__device__ __forceinline__ unsigned order_key(float x) {
  const unsigned bits = __float_as_uint(x == x ? x : -INFINITY);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float of_key(unsigned key) {
  return __uint_as_float((key & 0x80000000u) != 0 ? key & 0x7FFFFFFFu : ~key);
}

__device__ __forceinline__ bool allowed(const std::uint32_t* mask, int token) {
  return (mask[token / 32] >> (token % 32) & 1u) != 0;
}

// The largest value of all threads, in all of them. `room`: for kSampleThreads.
__device__ __forceinline__ Weight block_max(Weight x, Weight* room) {
  __syncthreads();
  room[threadIdx.x] = x;
  __syncthreads();
  for (int i = 0; i < kSampleThreads; ++i) x = room[i] > x ? room[i] : x;
  __syncthreads();
  return x;
}

// The sum of the threads before this one; `total`: of all.
__device__ __forceinline__ Weight sum_before(Weight x, Weight* room, Weight& total) {
  __syncthreads();
  room[threadIdx.x] = x;
  __syncthreads();
  Weight before = 0;
  total = 0;
  for (int i = 0; i < kSampleThreads; ++i) {
    if (i < static_cast<int>(threadIdx.x)) before += room[i];
    total += room[i];
  }
  __syncthreads();
  return before;
}

struct Run {
  int first, end;  // tokens
};
__device__ __forceinline__ Run run_of_thread(int vocabulary) {
  const int each = (vocabulary + kSampleThreads - 1) / kSampleThreads;
  const int first = static_cast<int>(threadIdx.x) * each;
  return {first < vocabulary ? first : vocabulary, first + each < vocabulary ? first + each : vocabulary};
}

// The first of the largest logits: its key above, the complement of its index below. 0: there is nothing.
__device__ __forceinline__ Weight largest_logit(const float* logits, int vocabulary, Weight* room) {
  const Run run = run_of_thread(vocabulary);
  Weight best = 0;
  for (int i = run.first; i < run.end; ++i) {
    const Weight here =
        static_cast<Weight>(order_key(logits[i])) << 32 | (0xFFFFFFFFu - static_cast<unsigned>(i));
    best = here > best ? here : best;
  }
  return block_max(best, room);
}
__device__ __forceinline__ int index_of(Weight best) {
  return static_cast<int>(0xFFFFFFFFu - static_cast<unsigned>(best));
}

// grid: rows to edit.
__global__ void edit_logits(EditLogitsArgs args) {
  PAGODA_SHARED(Weight, room);
  const EditRow& row = args.rows[blockIdx.x];
  float* const logits = args.logits + static_cast<std::int64_t>(row.row) * args.vocabulary;
  const Run run = run_of_thread(args.vocabulary);
  if (row.mask >= 0)
    for (int i = run.first; i < run.end; ++i)
      if (!allowed(args.masks + row.mask, i)) logits[i] = -INFINITY;
  const Weight best = largest_logit(logits, args.vocabulary, room);
  if (threadIdx.x == 0) args.best[row.row] = index_of(best);
  if (row.allowed >= 0)
    for (int i = run.first; i < run.end; ++i)
      if (!allowed(args.masks + row.allowed, i)) logits[i] = -INFINITY;
  __syncthreads();
  for (int e = static_cast<int>(threadIdx.x); e < row.edits; e += kSampleThreads) {
    const LogitEdit& edit = args.edits[row.first_edit + e];
    float logit = edit.masked != 0 ? -INFINITY : logits[edit.token];
    logit += edit.bias;
    if (edit.repeated != 0 && logit - logit == 0) {  // finite, and stays so
      logit = logit > 0 ? logit / row.repetition : logit * row.repetition;
      constexpr float kLargest = 3.402823466e38f;
      logit = logit > kLargest ? kLargest : logit < -kLargest ? -kLargest : logit;
    }
    if (edit.output_count > 0) {
      logit -= row.frequency * static_cast<float>(edit.output_count);
      logit -= row.presence;
    }
    logits[edit.token] = logit;
  }
}

// A row of logits as weights, after the cuts so far.
struct Weights {
  const float* logits;
  float largest, threshold, scale;
  __device__ __forceinline__ Weight operator()(int token) const {
    const float logit = logits[token];
    if (!(logit >= threshold)) return 0;
    const float weight = expf((logit - largest) * scale) * 1099511627776.0f;  // 2^40
    constexpr Weight kMost = (Weight{1} << kWeightBits) - 1;
    return weight >= 1099511627776.0f ? kMost : static_cast<Weight>(weight);
  }
};

// Adds up by digits: each thread's tokens into a sum a digit.
template <class Each>
__device__ __forceinline__ void sum_by_digit(int vocabulary, Weight* sums, const Each& each) {
  __syncthreads();
  sums[threadIdx.x] = 0;
  __syncthreads();
  const Run run = run_of_thread(vocabulary);
  for (int i = run.first; i < run.end; ++i) each(i);
  __syncthreads();
}

// The largest digit at which what is above and at it reaches `target`; takes off what is above. All threads.
__device__ __forceinline__ int digit_that_reaches(const Weight* sums, Weight& target) {
  int digit = kDigits - 1;
  while (digit > 0 && sums[digit] < target) target -= sums[digit--];
  return digit;
}

__device__ __forceinline__ float kth_largest(const float* logits, int vocabulary, int k, Weight* sums) {
  unsigned prefix = 0;
  Weight target = static_cast<Weight>(k);
  for (int shift = 32 - kDigitBits; shift >= 0; shift -= kDigitBits) {
    sum_by_digit(vocabulary, sums, [&](int i) {
      const unsigned key = order_key(logits[i]);
      const bool matches = shift == 32 - kDigitBits || key >> (shift + kDigitBits) == prefix;
      if (matches) atomicAdd(sums + (key >> shift) % kDigits, Weight{1});
    });
    prefix = prefix << kDigitBits | static_cast<unsigned>(digit_that_reaches(sums, target));
  }
  return of_key(prefix);
}

// The number of tokens to keep among those with the least weight that top_p leaves: the first.
struct Edge {
  Weight weight, count;
};
__device__ __forceinline__ Edge nucleus_edge(const Weights& weights, int vocabulary, Weight mass,
                                             Weight* sums) {
  Weight prefix = 0, target = mass > 0 ? mass : 1;
  for (int shift = kWeightBits - kDigitBits; shift >= 0; shift -= kDigitBits) {
    sum_by_digit(vocabulary, sums, [&](int i) {
      const Weight weight = weights(i);
      if (weight >> (shift + kDigitBits) == prefix && weight > 0)
        atomicAdd(sums + (weight >> shift) % kDigits, weight);
    });
    prefix = prefix << kDigitBits | static_cast<Weight>(digit_that_reaches(sums, target));
  }
  return {prefix, prefix > 0 ? (target + prefix - 1) / prefix : 0};
}

__device__ __forceinline__ Weight mix(Weight x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

// grid: rows; shared: kSampleSharedBytes.
__global__ void sample_rows(SampleRowsArgs args) {
  PAGODA_SHARED(Weight, room);
  const DrawRow& row = args.rows[blockIdx.x];
  const float* const logits = args.logits + static_cast<std::int64_t>(blockIdx.x) * args.vocabulary;
  const Weight best = largest_logit(logits, args.vocabulary, room);
  const float largest = of_key(static_cast<unsigned>(best >> 32));
  if (row.temperature == 0 || largest == -INFINITY) {
    const int token = largest == -INFINITY && row.has_best != 0 ? args.best[blockIdx.x] : index_of(best);
    for (int i = static_cast<int>(threadIdx.x); i < row.draws; i += kSampleThreads)
      args.tokens[row.first_draw + i] = token;
    return;
  }

  float threshold = largest + row.min_p_distance;
  if (row.top_k > 0 && row.top_k < args.vocabulary) {
    const float kth = kth_largest(logits, args.vocabulary, row.top_k, room);
    threshold = kth > threshold ? kth : threshold;
  }
  const Weights weights = {logits, largest, threshold, 1.0f / row.temperature};
  const Run run = run_of_thread(args.vocabulary);
  Weight own = 0, total = 0;
  for (int i = run.first; i < run.end; ++i) own += weights(i);
  sum_before(own, room, total);
  Edge edge = {0, 0};
  if (row.top_p < 1) {
    const double mass = static_cast<double>(row.top_p) * static_cast<double>(total);
    edge = nucleus_edge(weights, args.vocabulary, static_cast<Weight>(ceil(mass)), room);
  }
  Weight of_edge = 0, all_of_edge = 0;
  for (int i = run.first; i < run.end; ++i) of_edge += edge.weight > 0 && weights(i) == edge.weight ? 1 : 0;
  const Weight edge_before = sum_before(of_edge, room, all_of_edge);

  // The weight of a token of this thread's run, asked for in order; seen: of the edge's weight so far.
  const auto kept = [&](int i, Weight& seen) -> Weight {
    const Weight weight = weights(i);
    if (weight > edge.weight) return weight;
    if (weight < edge.weight || weight == 0) return 0;
    return seen++ < edge.count ? weight : 0;
  };
  own = 0;
  Weight seen = edge_before;
  for (int i = run.first; i < run.end; ++i) own += kept(i, seen);
  const Weight before = sum_before(own, room, total);
  for (int draw = 0; draw < row.draws; ++draw) {
    const Weight stream = row.first_stream + static_cast<Weight>(draw);
    const double uniform =
        static_cast<double>(mix(mix(mix(row.seed) ^ stream) ^ row.position) >> 11) * 0x1.0p-53;
    Weight target = static_cast<Weight>(uniform * static_cast<double>(total));
    if (target >= total) target = total - 1;
    if (target < before || target >= before + own) continue;
    Weight sum = before;
    seen = edge_before;
    for (int i = run.first; i < run.end; ++i) {
      sum += kept(i, seen);
      if (target < sum) {
        args.tokens[row.first_draw + draw] = i;
        break;
      }
    }
  }
}

}  // namespace pagoda::device::kernels
