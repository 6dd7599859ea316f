#pragma once
// EmbeddedIds: which ids the rows of a table of embeddings are of.
#include <cstdint>

namespace pagoda {

// Row i is that of id first_id + i; num_ids 0: of all ids there are (checked where they enter).
struct EmbeddedIds {
  std::int64_t first_id = 0, num_ids = 0;
  bool has(std::int64_t id) const { return num_ids == 0 || (id >= first_id && id < first_id + num_ids); }
};

}  // namespace pagoda
