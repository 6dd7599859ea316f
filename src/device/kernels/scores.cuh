#pragma once
// Log-probabilities of a row of logits: the logarithm of the sum of their exponentials, logit and rank of
// some tokens, and the largest logits in order. Sums are of integers, as in sampling.cuh.
#include "device/kernels/row_select.cuh"

namespace pagoda::device::kernels {

// The `count` largest of `from`, in order; the first of equal ones comes first.
template <class Tokens>
__device__ __forceinline__ void write_top(Select& select, const Tokens& from, int count, ScoredToken* room,
                                          ScoredToken* out) {
  const unsigned least = kth_key_of(select, from, static_cast<Weight>(count));
  const auto put = [&](int place, int i) { room[place] = {from.token(i), from.logits[i]}; };
  const int above = least < 0xFFFFFFFFu ? gather(select, from, least + 1, 0xFFFFFFFFu, count, put) : 0;
  gather(select, from, least, least, count - above, [&](int place, int i) { put(above + place, i); });
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    const unsigned key = order_key(room[i].logit);
    int place = 0;
    for (int j = 0; j < count; ++j) {
      const unsigned other = order_key(room[j].logit);
      place += other > key || (other == key && room[j].token < room[i].token) ? 1 : 0;
    }
    out[place] = room[i];
  }
}

// grid: rows; block: sample_threads(); shared: score_shared_bytes().
__global__ void __launch_bounds__(kMostSampleThreads) score_rows(ScoreRowsArgs args) {
  begin_kernel();
  const ScoreRow& row = args.rows[blockIdx.x];
  const float* const logits = row.copy >= 0
                                  ? args.copies + static_cast<std::int64_t>(row.copy) * args.vocabulary
                                  : args.logits + static_cast<std::int64_t>(row.row) * args.vocabulary;
  const RowTokens all = {logits, args.vocabulary};
  Select select = begin_select();
  auto* const room =
      reinterpret_cast<ScoredToken*>(select.logits + kListedOfThread * static_cast<int>(blockDim.x));
  const Weight own = best_of_thread(all);
  const float largest = of_key(key_of(largest_of_block(select, own)));
  Weight sum = 0;
  if (largest - largest == 0)
    for_tokens(all.count,
               [&](int i) { sum += logits[i] == logits[i] ? weight_of(logits[i], largest, 1) : 0; });
  sum = sum_of_block(select, sum);
  // All sums are the same in every thread.
  if (threadIdx.x == 0)
    args.normalizers[blockIdx.x] =
        sum == 0 ? largest
                 : largest + logf(static_cast<float>(static_cast<double>(sum) * (1.0 / 1099511627776.0)));
  for (int t = 0; t < row.tokens; ++t) {
    const int token = args.tokens[row.first_token + t];
    const float logit = token >= 0 && token < args.vocabulary ? logits[token] : -INFINITY;
    Weight larger = 0;
    for_tokens(all.count, [&](int i) { larger += logits[i] > logit ? 1 : 0; });
    larger = sum_of_block(select, larger);
    if (threadIdx.x == 0) args.scores[row.first_token + t] = {static_cast<std::int32_t>(larger) + 1, logit};
  }
  if (row.top == 0) return;
  ScoredToken* const out = args.top + row.first_top;
  const Weight threads = blockDim.x;
  if (static_cast<Weight>(row.top) <= threads) {
    const unsigned bound = reached_by(select, own, static_cast<Weight>(row.top));
    const ListedTokens list = list_tokens(select, all, bound);
    if (fits(list)) return write_top(select, list, row.top, room, out);
  }
  write_top(select, all, row.top, room, out);
}

}  // namespace pagoda::device::kernels
