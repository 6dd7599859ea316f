#pragma once
// The merge loop of byte-pair encoding over a row of symbols: repeatedly merges the best adjacent pair (of
// equal ones the leftmost) into one symbol. O(n log n); short rows use a simpler loop.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "request/ids.h"
#include "tokenizer/flat_map.h"

namespace pagoda {

// Merges `symbols` in place. `find(left, right)` returns a const PairMap::Merge*, or null; lower ranks win.
template <class Find>
void merge_short_row(std::vector<TokenId>& symbols, const Find& find) {
  constexpr std::size_t kMax = 48;
  PairMap::Merge merges[kMax];  // merge of symbols i and i + 1
  constexpr std::uint32_t kNone = UINT32_MAX;
  const auto look = [&](std::size_t i) {
    const PairMap::Merge* merge = find(symbols[i], symbols[i + 1]);
    merges[i] = merge ? *merge : PairMap::Merge{kNone, -1};
  };
  std::size_t count = symbols.size();
  for (std::size_t i = 0; i + 1 < count; ++i) look(i);
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i)
      if (merges[i].rank < merges[best].rank) best = i;
    if (merges[best].rank == kNone) break;
    symbols[best] = merges[best].id;
    for (std::size_t i = best + 1; i + 1 < count; ++i) symbols[i] = symbols[i + 1];
    for (std::size_t i = best + 1; i + 2 < count; ++i) merges[i] = merges[i + 1];
    --count;
    if (best > 0) look(best - 1);
    if (best + 1 < count) look(best);
  }
  symbols.resize(count);
}

template <class Find>
void merge_long_row(std::vector<TokenId>& symbols, const Find& find) {
  constexpr std::uint32_t kNone = UINT32_MAX;
  const std::size_t count = symbols.size();
  std::vector<std::uint32_t> previous(count), next(count);
  std::vector<std::uint64_t> heap;  // rank << 32 | position; the smallest first
  const auto push = [&](std::size_t i) {
    if (const PairMap::Merge* merge = find(symbols[i], symbols[next[i]]))
      heap.push_back(static_cast<std::uint64_t>(merge->rank) << 32 | static_cast<std::uint32_t>(i));
    else
      return false;
    return true;
  };
  for (std::size_t i = 0; i < count; ++i) {
    previous[i] = i == 0 ? kNone : static_cast<std::uint32_t>(i - 1);
    next[i] = i + 1 == count ? kNone : static_cast<std::uint32_t>(i + 1);
  }
  for (std::size_t i = 0; i + 1 < count; ++i) push(i);
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const auto rank = static_cast<std::uint32_t>(heap.back() >> 32);
    const auto i = static_cast<std::size_t>(heap.back() & UINT32_MAX);
    heap.pop_back();
    if (symbols[i] < 0 || next[i] == kNone) continue;  // merged away since
    const std::size_t right = next[i];
    const PairMap::Merge* merge = find(symbols[i], symbols[right]);
    if (!merge || merge->rank != rank) continue;  // stale: one of the two has grown since
    symbols[i] = merge->id;
    symbols[right] = -1;
    next[i] = next[right];
    if (next[i] != kNone) previous[next[i]] = static_cast<std::uint32_t>(i);
    if (previous[i] != kNone && push(previous[i])) std::push_heap(heap.begin(), heap.end(), std::greater<>());
    if (next[i] != kNone && push(i)) std::push_heap(heap.begin(), heap.end(), std::greater<>());
  }
  std::erase(symbols, -1);
}

template <class Find>
void merge_row(std::vector<TokenId>& symbols, const Find& find) {
  if (symbols.size() < 2) return;
  if (symbols.size() <= 48)
    merge_short_row(symbols, find);
  else
    merge_long_row(symbols, find);
}

}  // namespace pagoda
