#pragma once
// Copies of whole KV blocks that a step carries out before its forward pass, and of states during it. Ids
// only.
#include <cstdint>

#include "request/ids.h"

namespace pagoda {

struct BlockCopy {  // copy-on-write inside the pool
  BlockId from{}, to{};
};

struct SwapCopy {  // between the pool and the swap space; the list it stands in tells the direction
  BlockId block{};
  SwapBlockId swap_block{};
};

// A recurrent state as it is after `position` tokens of a sequence of the batch, written to pages of its own
// while the step passes by; the sequence's own state is in its table's row. Drafts move neither: those that
// were right are computed again, as ordinary tokens of the next step. A state that takes several runs of
// pages has one of these for each.
struct StateCopy {
  std::int32_t sequence = 0;  // its index in the batch
  std::int32_t position = 0;  // num_computed_tokens < position <= num_computed_tokens + tokens, drafts apart
  std::int32_t group = 0;     // KV group of the state
  std::int32_t first_page = 0;  // first page of the state: the one that goes to `page`
  BlockId page{};               // and the next ones to page + 1, …
  std::int32_t count = 1;
};

}  // namespace pagoda
