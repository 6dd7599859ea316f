#pragma once
// Sampling: one block per row of logits. The result of a draw is the same in every batch and on every device:
// weights are integers (exp in units of 2^-40), so that their sums do not depend on an order, and cuts and
// draws are exact. Meaning and order of the parameters are those of sampler/.
//   threshold   the smallest logit that top_k and min_p leave
//   edge        the smallest weight that top_p leaves, and the number of tokens kept among those that have it
//   draw        inverse CDF over tokens in ascending order at (seed, stream, position)
// A first kernel finds the best of each group of neighbouring tokens, with one warp per group, so that the
// whole device reads the row. The cuts are searched for among the largest logits (row_select.cuh), in the
// groups that have them, or in the whole row if those are not enough: flat distributions, many ties.
#include "device/kernels/row_select.cuh"

namespace pagoda::device::kernels {

__device__ __forceinline__ bool allowed(const std::uint32_t* mask, int token) {
  return (mask[token / 32] >> (token % 32) & 1u) != 0;
}

// Words of TokenCounts: the number of times a token is in the output, and whether the prompt has it.
constexpr unsigned kInPrompt = 0x80000000u;

// grid: rows of counts to update; block: kRowThreads.
__global__ void count_tokens(CountTokensArgs args) {
  begin_kernel();
  const CountRow& row = args.rows[blockIdx.x];
  std::uint32_t* const counts = args.counts + static_cast<std::int64_t>(row.line) * args.vocabulary;
  const int first = static_cast<int>(threadIdx.x), step = static_cast<int>(blockDim.x);
  if (row.reset != 0) {
    for (int i = first; i < args.vocabulary; i += step) counts[i] = 0;
    __syncthreads();
  }
  const std::int32_t* const tokens = args.tokens + row.first;
  for (int i = first; i < row.prompt + row.output; i += step) {
    const int token = tokens[i];
    if (token < 0 || token >= args.vocabulary) continue;
    if (i < row.prompt)
      atomicOr(counts + token, kInPrompt);
    else
      atomicAdd(counts + token, 1u);
  }
}

// A logit after the penalties, for a token that is in the prompt, or `count` times in the output.
__device__ __forceinline__ float penalized(const EditRow& row, float logit, bool seen, unsigned count) {
  if (seen && row.repetition != 1.0f && logit - logit == 0) {  // finite, and stays finite
    logit = logit > 0 ? logit / row.repetition : logit * row.repetition;
    constexpr float kLargest = 3.402823466e38f;
    logit = logit > kLargest ? kLargest : logit < -kLargest ? -kLargest : logit;
  }
  if (count > 0) {
    logit -= row.frequency * static_cast<float>(count);
    logit -= row.presence;
  }
  return logit;
}

// One thread per row.
__global__ void fill_in_tokens(FillInTokensArgs args) {
  begin_kernel();
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < args.count) args.ids[args.places[i].row] = args.drawn[args.places[i].place];
}

// grid: rows to edit; block: sample_threads(); shared: select_shared_bytes().
__global__ void edit_logits(EditLogitsArgs args) {
  begin_kernel();
  const EditRow& row = args.rows[blockIdx.x];
  const int first = static_cast<int>(threadIdx.x), step = static_cast<int>(blockDim.x);
  float* const logits = args.logits + static_cast<std::int64_t>(row.row) * args.vocabulary;
  float* const copy =
      row.copy >= 0 ? args.copies + static_cast<std::int64_t>(row.copy) * args.vocabulary : nullptr;
  const std::uint32_t* const counts =
      row.counts >= 0 ? args.counts + static_cast<std::int64_t>(row.counts) * args.vocabulary : nullptr;
  const std::uint32_t* const rest = row.allowed >= 0 ? args.masks + row.allowed : nullptr;
  Select select = begin_select();
  Weight best = 0;
  for (int i = first; i < args.vocabulary; i += step) {
    float logit = logits[i];
    if (row.mask >= 0 && !allowed(args.masks + row.mask, i)) logits[i] = logit = -INFINITY;
    if (copy != nullptr) copy[i] = logit;
    const Weight here =
        static_cast<Weight>(order_key(logit)) << 32 | (0xFFFFFFFFu - static_cast<unsigned>(i));
    best = here > best ? here : best;
  }
  best = largest_of_block(select, best);
  if (threadIdx.x == 0) args.best[row.row] = token_of(best);
  __syncthreads();

  // Single-token edits are computed first, from logits that nothing else has changed; they are written last.
  const auto seen = [&](int token) { return counts != nullptr ? counts[token] : 0u; };
  LogitEdit* const edits = args.edits + row.first_edit;
  for (int e = first; e < row.edits; e += step) {
    const LogitEdit& edit = edits[e];
    const bool out = edit.masked != 0 || (rest != nullptr && !allowed(rest, edit.token));
    const unsigned count = seen(edit.token);
    edits[e].value = penalized(row, (out ? -INFINITY : logits[edit.token]) + edit.bias,
                               count != 0 || edit.output_count > 0,
                               (count & ~kInPrompt) + static_cast<unsigned>(edit.output_count));
  }
  if (rest == nullptr && counts == nullptr && row.edits == 0) return;
  __syncthreads();
  if (rest != nullptr || counts != nullptr)
    for (int i = first; i < args.vocabulary; i += step) {
      const unsigned count = seen(i);
      if (rest != nullptr && !allowed(rest, i))
        logits[i] = -INFINITY;
      else if (count != 0)
        logits[i] = penalized(row, logits[i], true, count & ~kInPrompt);
    }
  __syncthreads();
  for (int e = first; e < row.edits; e += step) logits[edits[e].token] = edits[e].value;
}

// Finds the best of each group of tokens, so that sample_rows need not read the whole row, but only the
// groups that matter. grid: (rows, groups / kGroupWarps); block: 32 * kGroupWarps.
__global__ void __launch_bounds__(32 * kGroupWarps) best_of_groups(SampleRowsArgs args) {
  begin_kernel();
  const int groups = token_groups(args.vocabulary);
  const int group = static_cast<int>(blockIdx.y) * kGroupWarps + warp_of_block();
  if (group >= groups) return;
  const float* const logits =
      args.logits + static_cast<std::int64_t>(args.rows[blockIdx.x].row) * args.vocabulary;
  const Weight best = best_of_group(logits, group, args.vocabulary);
  if (lane_of_warp() == 0) args.groups[static_cast<std::int64_t>(blockIdx.x) * groups + group] = best;
}

// The weight of a logit under a draw's parameters.
struct Weigh {
  float largest, threshold, scale;
  __device__ __forceinline__ Weight operator()(float logit) const {
    return logit >= threshold ? weight_of(logit, largest, scale) : 0;
  }
};

// The smallest weight that top_p leaves, and the number of tokens to keep among those that have it: the first
// ones.
struct Edge {
  Weight weight, count;
};

// The edge at which the largest weights reach `mass`. {0, 0}: all tokens are needed.
template <class Tokens>
__device__ __forceinline__ Edge nucleus_edge(Select& select, const Tokens& from, const Weigh& weigh,
                                             Weight mass) {
  const Weight target = mass > 0 ? mass : 1;
  Weight edge = 0;
  for (int shift = kWeightBits - 2; shift >= 0; shift -= 2) {
    Weight sums[3] = {0, 0, 0};
    for_tokens(from.count, [&](int i) {
      const Weight weight = weigh(from.logits[i]);
#pragma unroll
      for (Weight digit = 0; digit < 3; ++digit)
        sums[digit] += weight >= (edge | (digit + 1) << shift) ? weight : 0;
    });
    join(select, sums, Plus{});
    const Weight digit = sums[2] >= target ? 3 : sums[1] >= target ? 2 : sums[0] >= target ? 1 : 0;
    edge |= digit << shift;
  }
  if (edge == 0) return {0, 0};
  Weight above = 0;
  for_tokens(from.count, [&](int i) {
    const Weight weight = weigh(from.logits[i]);
    above += weight > edge ? weight : 0;
  });
  above = sum_of_block(select, above);
  return {edge, (target - above + edge - 1) / edge};
}

// Likewise for a short list, in one pass over all of its tokens at once: a thread has a token, and sums the
// weights that are at least as large.
constexpr int kShortList = 256;
__device__ __forceinline__ Edge nucleus_edge_of_short(Select& select, const ListedTokens& list,
                                                      const Weigh& weigh, Weight mass) {
  const Weight target = mass > 0 ? mass : 1;
  // A short list leaves space after its logits.
  Weight* const weights = reinterpret_cast<Weight*>(select.logits + kShortList);
  const int i = static_cast<int>(threadIdx.x), step = static_cast<int>(blockDim.x);
  for (int j = i; j < list.count; j += step) weights[j] = weigh(list.logits[j]);
  __syncthreads();
  Weight edge = 0, above = 0;
  for (int own = i; own < list.count; own += step) {
    const Weight weight = weights[own];
    Weight more = 0, as_much = 0;
    for (int j = 0; j < list.count; ++j) {
      const Weight other = weights[j];
      more += other > weight ? other : 0;
      as_much += other == weight ? other : 0;
    }
    if (more + as_much < target || weight <= edge) continue;
    edge = weight;
    above = more;
  }
  const Weight own_edge = edge;
  edge = largest_of_block(select, edge);
  above = largest_of_block(select, own_edge == edge ? above : 0);
  if (edge == 0) return {0, 0};
  return {edge, (target - above + edge - 1) / edge};
}
__device__ __forceinline__ bool is_short(const ListedTokens& list) {
  return list.count <= kShortList && kListedOfThread * static_cast<int>(blockDim.x) >= 3 * kShortList;
}

template <class Tokens>
__device__ __forceinline__ Weight mass_of(Select& select, const Tokens& from, const Weigh& weigh) {
  Weight sum = 0;
  for_tokens(from.count, [&](int i) { sum += weigh(from.logits[i]); });
  return sum_of_block(select, sum);
}

__device__ __forceinline__ Weight mix(Weight x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

// All draws of a row, from the tokens of `from` that `edge` leaves.
template <class Tokens>
__device__ __forceinline__ void draw(Select& select, const Tokens& from, const Weigh& weigh, const Edge& edge,
                                     const DrawRow& row, std::int32_t* tokens) {
  Weight above = 0, equal = 0;
  for_tokens(from.count, [&](int i) {
    const Weight weight = weigh(from.logits[i]);
    above += weight > edge.weight ? weight : 0;
    equal += edge.weight > 0 && weight == edge.weight ? 1 : 0;
  });
  above = sum_of_warp(above);
  equal = sum_of_warp(equal);
  Weight total = 0;
  const Weight equal_before = sum_before_warp(select, equal, total);
  const Weight left = edge.count > equal_before ? edge.count - equal_before : 0;
  const Weight own = above + edge.weight * (equal < left ? equal : left);
  const Weight before = sum_before_warp(select, own, total);
  const WarpRun run = run_of_warp(from.count);
  for (int i = 0; i < row.draws; ++i) {
    const Weight stream = row.first_stream + static_cast<Weight>(i);
    const double uniform =
        static_cast<double>(mix(mix(mix(row.seed) ^ stream) ^ row.position) >> 11) * 0x1.0p-53;
    Weight target = static_cast<Weight>(uniform * static_cast<double>(total));
    if (target >= total) target = total - 1;
    if (target < before || target >= before + own) continue;  // another warp's
    Weight sum = before, taken = 0;                           // taken: of the edge's weight
    for (int first = run.first; first < run.behind; first += 32) {
      const int at = first + lane_of_warp();
      Weight weight = at < run.end ? weigh(from.logits[at]) : 0;
      const bool is_edge = edge.weight > 0 && weight == edge.weight;
      const unsigned edges = __ballot_sync(kAllLanes, is_edge ? 1 : 0);
      const Weight place = taken + static_cast<Weight>(__popc(edges & ((1u << lane_of_warp()) - 1)));
      if (weight < edge.weight || (is_edge && place >= left)) weight = 0;
      taken += static_cast<Weight>(__popc(edges));
      const Weight up_to = sum + sum_up_to_lane(weight);
      const unsigned reached = __ballot_sync(kAllLanes, up_to > target ? 1 : 0);
      if (reached != 0) {
        const int lane = 32 - __popc(reached);  // sums ascend: all lanes from the first on
        if (lane_of_warp() == lane) tokens[row.first_draw + i] = from.token(at);
        break;
      }
      sum = __shfl_sync(kAllLanes, up_to, 31);
    }
  }
}

// The cuts of a row, then its draws. row.temperature > 0.
__device__ __forceinline__ void cut_and_draw(Select& select, const RowTokens& all, Weight best_of_own,
                                             float largest, const DrawRow& row, std::int32_t* tokens) {
  Weigh weigh = {largest, largest + row.min_p_distance, 1.0f / row.temperature};
  const Weight k = row.top_k > 0 && row.top_k < all.count ? static_cast<Weight>(row.top_k) : 0;
  const bool nucleus = row.top_p < 1;
  const auto mass_to_keep = [&](Weight total) {
    return static_cast<Weight>(ceil(static_cast<double>(row.top_p) * static_cast<double>(total)));
  };
  const unsigned least = order_key(weigh.threshold);
  if (k > 0 || nucleus || least > order_key(-INFINITY)) {
    const int threads = static_cast<int>(blockDim.x), groups = token_groups(all.count);
    const int wanted = k > 0 && k <= static_cast<Weight>(groups) ? static_cast<int>(k) : (3 * groups + 3) / 4;
    const unsigned reached = kth_key_of_threads(key_of(best_of_own), wanted);
    const unsigned bound = reached > least ? reached : least;
    int* const hits = reinterpret_cast<int*>(select.logits + kListedOfThread * threads);
    const ListedTokens list = list_groups(select, all, best_of_own, bound, hits);
    const auto edge_of = [&](Weight mass) {
      return is_short(list) ? nucleus_edge_of_short(select, list, weigh, mass)
                            : nucleus_edge(select, list, weigh, mass);
    };
    if (fits(list) && (bound == least || (k > 0 && static_cast<Weight>(list.count) >= k))) {
      // All tokens that stay are listed.
      if (k > 0 && static_cast<Weight>(list.count) > k) {
        const int own = static_cast<int>(threadIdx.x);
        const float kth = of_key(
            list.count <= threads
                ? kth_key_of_threads(own < list.count ? order_key(list.logits[own]) : 0, static_cast<int>(k))
                : kth_key_of(select, list, k));
        weigh.threshold = kth > weigh.threshold ? kth : weigh.threshold;
      }
      Edge edge = {0, 0};
      if (nucleus) edge = edge_of(mass_to_keep(mass_of(select, list, weigh)));
      return draw(select, list, weigh, edge, row, tokens);
    }
    if (fits(list) && k == 0) {
      const Weight mass = mass_to_keep(mass_of(select, all, weigh));
      if (mass_of(select, list, weigh) >= mass) return draw(select, list, weigh, edge_of(mass), row, tokens);
    }
  }
  if (k > 0) {
    const float kth = of_key(kth_key_of(select, all, k));
    weigh.threshold = kth > weigh.threshold ? kth : weigh.threshold;
  }
  Edge edge = {0, 0};
  if (nucleus) edge = nucleus_edge(select, all, weigh, mass_to_keep(mass_of(select, all, weigh)));
  draw(select, all, weigh, edge, row, tokens);
}

// Runs after best_of_groups. grid: rows; block: sample_threads(); shared: sample_shared_bytes().
__global__ void __launch_bounds__(kMostSampleThreads) sample_rows(SampleRowsArgs args) {
  begin_kernel();
  const DrawRow& row = args.rows[blockIdx.x];
  const RowTokens all = {args.logits + static_cast<std::int64_t>(row.row) * args.vocabulary, args.vocabulary};
  Select select = begin_select();
  const int groups = token_groups(args.vocabulary), thread = static_cast<int>(threadIdx.x);
  const Weight own =
      thread < groups ? args.groups[static_cast<std::int64_t>(blockIdx.x) * groups + thread] : 0;
  const Weight best = largest_of_block(select, own);
  const float largest = of_key(key_of(best));
  if (row.temperature > 0 && largest != -INFINITY)
    return cut_and_draw(select, all, own, largest, row, args.tokens);
  const int token = largest == -INFINITY && row.has_best != 0 ? args.best[row.row] : token_of(best);
  for (int i = static_cast<int>(threadIdx.x); i < row.draws; i += static_cast<int>(blockDim.x))
    args.tokens[row.first_draw + i] = token;
}

}  // namespace pagoda::device::kernels
