#pragma once
// Changes that a step makes to the mapping of virtual KV blocks onto physical pages. Ids and counts only;
// every other manager has none. Block tables then hold virtual blocks (the place in the address space), and
// the copies of a batch name physical pages, so copying and mapping do not depend on each other.
#include <cstdint>

#include "request/ids.h"

namespace pagoda {

inline constexpr BlockId kNoPage{-1};
inline constexpr BlockId kNoBlock{-1};

// Virtual blocks block, block + 1, … (`count` of them) show pages page, page + 1, …, whatever they showed
// before; or none, when `page` is kNoPage. Of kNoBlock: nobody needs what is in pages page, page + 1, …, and
// the system may have their memory back; whoever uses one of them later finds it there, with other content.
struct PageMapping {
  BlockId block{};
  BlockId page{};
  std::int32_t count = 0;
};

}  // namespace pagoda
