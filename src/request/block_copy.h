#pragma once
// Copies of whole KV blocks that a step carries out before its forward pass. Ids only.
#include "request/ids.h"

namespace pagoda {

struct BlockCopy {  // copy-on-write inside the pool
  BlockId from{}, to{};
};

struct SwapCopy {  // between the pool and the swap space; the list it stands in tells the direction
  BlockId block{};
  SwapBlockId swap_block{};
};

}  // namespace pagoda
