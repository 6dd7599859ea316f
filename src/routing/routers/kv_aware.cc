// Same as vllm-router 0.1.17 with `--policy kv_aware`, as determined by experiment: chooses the minimum of
//   (prompt tokens not cached there + those of requests under way) * (1 + requests under way).
#include <algorithm>
#include <limits>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/random.h"
#include "routing/router.h"

namespace pagoda {
namespace {

// Mirrors one engine's prefix cache from its events: a block is identified by the hash of all tokens up to
// its end.
class CacheMirror final : public CacheObserver {
 public:
  void on_stored(const Stored& block) override {
    std::uint64_t chain = 0;
    if (block.parent != nullptr) {
      const auto known = chains_.find(*block.parent);
      if (known == chains_.end()) return;
      chain = known->second;
    }
    chain = after(chain, block.tokens);
    block_size_ = block.tokens.size();
    chains_[block.hash] = chain;
    held_.insert(chain);
  }
  void on_removed(const BlockHash& hash) override {
    const auto known = chains_.find(hash);
    if (known == chains_.end()) return;
    held_.erase(known->second);
    chains_.erase(known);
  }
  void on_cleared() override {
    chains_.clear();
    held_.clear();
  }
  void end_step() override {}

  std::int64_t num_cached(std::span<const TokenId> tokens) const {
    std::size_t count = 0;
    std::uint64_t chain = 0;
    while (block_size_ > 0 && count + block_size_ <= tokens.size()) {
      chain = after(chain, tokens.subspan(count, block_size_));
      if (!held_.contains(chain)) break;
      count += block_size_;
    }
    return static_cast<std::int64_t>(count);
  }

 private:
  static std::uint64_t after(std::uint64_t chain, std::span<const TokenId> tokens) {
    for (const TokenId token : tokens) chain = mix64(chain ^ static_cast<std::uint64_t>(token));
    return chain;
  }
  std::size_t block_size_ = 0;  // 0: nothing stored yet
  std::unordered_map<BlockHash, std::uint64_t, BlockHashHasher> chains_;
  std::unordered_set<std::uint64_t> held_;
};

class KvAware final : public Router {
 public:
  RouterChoice choose(const Request& request, std::span<const ReplicaLoad> loads) override {
    RouterChoice best;
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (std::size_t i = 0; i < loads.size(); ++i) {
      const auto tokens = std::ssize(request.prompt_token_ids);
      const std::int64_t uncached =
          i < mirrors_.size() ? tokens - mirrors_[i]->num_cached(request.prompt_token_ids) : tokens;
      const std::int64_t score = (uncached + loads[i].uncached_tokens) * (1 + loads[i].requests);
      if (score < least) best = {.replica = i, .uncached_tokens = uncached};
      least = std::min(least, score);
    }
    return best;
  }
  CacheObserver* cache_observer(std::size_t replica) override {
    while (mirrors_.size() <= replica) mirrors_.push_back(std::make_unique<CacheMirror>());
    return mirrors_[replica].get();
  }

 private:
  std::vector<std::unique_ptr<CacheMirror>> mirrors_;
};

}  // namespace

std::unique_ptr<Router> make_kv_aware_router() { return std::make_unique<KvAware>(); }

}  // namespace pagoda
