#include "kv_cache/prefix_index.h"

#include <algorithm>

#include "base/check.h"

namespace pagoda {

PrefixIndex::PrefixIndex(const PrefixIndexConfig& config, BlockPool& pool)
    : block_size_(config.block_size),
      hash_bits_(config.hash_bits),
      verify_hits_(config.verify_hits),
      pool_(pool),
      hasher_(config.model_id) {
  if (!verify_hits_) return;
  content_sizes_.resize(static_cast<std::size_t>(config.num_blocks));
  content_.resize(content_sizes_.size() * static_cast<std::size_t>(block_size_));
}

std::span<const TokenId> PrefixIndex::content_of(BlockId row) const {
  CHECK(verify_hits_);
  const auto at = static_cast<std::size_t>(index(row));
  return std::span(content_).subspan(at * static_cast<std::size_t>(block_size_),
                                     static_cast<std::size_t>(content_sizes_[at]));
}

BlockHash PrefixIndex::next(const BlockHash& parent, std::span<const TokenId> tokens) {
  BlockHash hash = hasher_.next(parent, tokens);
  if (hash_bits_ < 64) hash = {{hash.words[0] & ((std::uint64_t{1} << hash_bits_) - 1), 0, 0, 0}};
  return hash;
}

std::optional<BlockId> PrefixIndex::find(const BlockHash& hash, std::size_t group,
                                         std::span<const TokenId> content) const {
  const std::optional<BlockId> row = find(hash, group);
  if (!row || !verify_hits_) return row;
  const auto begin = static_cast<std::size_t>(index(*row)) * static_cast<std::size_t>(block_size_);
  const auto known = std::span(content_).subspan(begin, content.size());
  return std::ranges::equal(content, known) ? row : std::nullopt;
}

BlockId PrefixIndex::acquire(const BlockHash& hash, std::size_t group, const CacheClaim& claim) {
  const auto row = pool_.acquire_cached(hash, static_cast<std::int32_t>(group));
  CHECK(row);
  pool_.use(*row, claim);
  return *row;
}

bool PrefixIndex::publish(BlockId row, const BlockHash& hash, std::size_t group,
                          std::span<const TokenId> content, const CacheClaim& claim) {
  const bool taken = pool_.publish(row, hash, static_cast<std::int32_t>(group));
  if (const std::optional<BlockId> user = taken ? row : find(hash, group)) pool_.use(*user, claim);
  if (!taken) return false;
  if (verify_hits_) {
    const auto begin = static_cast<std::size_t>(index(row)) * static_cast<std::size_t>(block_size_);
    std::ranges::copy(content, content_.begin() + static_cast<std::ptrdiff_t>(begin));
    content_sizes_[static_cast<std::size_t>(index(row))] = static_cast<std::int32_t>(content.size());
  }
  return true;
}

}  // namespace pagoda
