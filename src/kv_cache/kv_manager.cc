// What a manager answers all of whose rows are alike: blocks of block_size tokens that hold every layer.
#include "kv_cache/kv_manager.h"

namespace pagoda {

std::int64_t KvManager::pages_alone(std::int64_t num_tokens, std::int64_t num_sequences,
                                    std::int64_t num_shared, bool) const {
  const std::int64_t size = block_size(), shared = num_shared / size;
  return shared + num_sequences * ((num_tokens + size - 1) / size - shared);
}

std::int64_t KvManager::tokens_alone(std::int64_t num_pages) const { return num_pages * block_size(); }

std::int64_t KvManager::pages_to_go_on(std::int64_t num_tokens) const {
  return 2 + num_tokens / block_size();
}

std::int32_t KvManager::shareable(SequenceId, std::int32_t num_tokens) const {
  return num_tokens / block_size() * block_size();
}

}  // namespace pagoda
