#pragma once
// Changes that a step makes to the mapping of virtual KV blocks to physical pages. Ids and counts only; used
// by the virtual KV manager alone. Block tables then hold virtual blocks (places in the address space), while
// a batch's copies name physical pages, so copying and mapping are independent.
#include <cstdint>

#include "request/ids.h"

namespace pagoda {

inline constexpr BlockId kNoPage{-1};
inline constexpr BlockId kNoBlock{-1};

// Maps virtual blocks block, block + 1, … (`count` of them) to pages page, page + 1, …, replacing any
// previous mapping; kNoPage unmaps them. If `block` is kNoBlock, the content of pages page, page + 1, … is no
// longer needed and the system may reclaim their memory; a page that is used again has memory with other
// content.
struct PageMapping {
  BlockId block{};
  BlockId page{};
  std::int32_t count = 0;
};

}  // namespace pagoda
