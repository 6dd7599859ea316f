#pragma once
// Copies of whole KV blocks that a step makes before its forward pass, and copies of recurrent states that it
// makes during the pass. Ids only.
#include <cstdint>

#include "request/ids.h"

namespace pagoda {

struct BlockCopy {  // copy-on-write inside the pool
  BlockId from{}, to{};
};

struct SwapCopy {  // between the pool and the swap space; the list that holds the copy gives the direction
  BlockId block{};
  SwapBlockId swap_block{};
};

// Saves a recurrent state as it is after `position` tokens of a sequence of the batch. The step writes the
// copy to separate pages during the forward pass; the live state stays in the row of the sequence's table.
// Draft tokens advance neither: accepted drafts are computed again as ordinary tokens of the next step. A
// state that spans several runs of pages has one StateCopy per run.
struct StateCopy {
  std::int32_t sequence = 0;    // index of the sequence in the batch
  std::int32_t position = 0;    // num_computed_tokens < position <= num_computed_tokens + tokens - drafts
  std::int32_t group = 0;       // KV group of the state
  std::int32_t first_page = 0;  // first page of the state in this run; it is copied to `page`
  BlockId page{};               // the following pages go to page + 1, …
  std::int32_t count = 1;
};

}  // namespace pagoda
