#pragma once
// BlockHash: names the content of a full KV block: SHA-256 over the hash of the previous block and the
// block's tokens; the chain starts from (model, salt). Equal hashes imply equal prefixes: a collision would
// give one request another's K/V, hence the cryptographic hash. Source: vLLM's automatic prefix caching;
// CVE-2025-25183 shows the cost of a weak hash.
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "request/ids.h"

namespace pagoda {

struct BlockHash {
  std::array<std::uint64_t, 4> words{};
  bool operator==(const BlockHash&) const = default;
};

struct BlockHashHasher {
  std::size_t operator()(const BlockHash& hash) const { return hash.words[0]; }
};

// Threads: one at a time; the OpenSSL context is reused.
class BlockHasher {
 public:
  explicit BlockHasher(std::string_view model_id);
  ~BlockHasher();
  BlockHasher(const BlockHasher&) = delete;
  BlockHasher& operator=(const BlockHasher&) = delete;

  BlockHash root(std::string_view salt);  // the parent of a sequence's first block
  BlockHash next(const BlockHash& parent, std::span<const TokenId> tokens);

 private:
  struct Context;
  std::unique_ptr<Context> context_;
  BlockHash model_;
};

}  // namespace pagoda
