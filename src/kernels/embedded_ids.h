#pragma once
// EmbeddedIds: the range of token ids that a table of embeddings covers.
#include <cstdint>

namespace pagoda {

// Row i embeds id first_id + i. num_ids 0: the table covers all ids (ids are validated where they enter).
struct EmbeddedIds {
  std::int64_t first_id = 0, num_ids = 0;
  bool has(std::int64_t id) const { return num_ids == 0 || (id >= first_id && id < first_id + num_ids); }
};

}  // namespace pagoda
