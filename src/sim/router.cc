#include "sim/router.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/random.h"

namespace pagoda {
namespace {

std::size_t least_loaded(std::span<const ReplicaLoad> loads) {
  return static_cast<std::size_t>(std::ranges::min_element(loads, {}, &ReplicaLoad::requests) -
                                  loads.begin());
}

class RoundRobin final : public Router {
 public:
  RouterChoice choose(const Request&, std::span<const ReplicaLoad> loads) override {
    return {.replica = next_++ % loads.size()};
  }

 private:
  std::size_t next_ = 0;
};

class LeastLoaded final : public Router {
 public:
  RouterChoice choose(const Request&, std::span<const ReplicaLoad> loads) override {
    return {.replica = least_loaded(loads)};
  }
};

// Remembers where the chunks of earlier prompts went, each known by the hash of all tokens up to its end.
class PrefixAware final : public Router {
 public:
  RouterChoice choose(const Request& request, std::span<const ReplicaLoad> loads) override {
    const std::vector<TokenId>& tokens = request.prompt_token_ids;
    std::vector<std::uint64_t> chunks;
    std::uint64_t hash = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      hash = mix64(hash ^ static_cast<std::uint64_t>(tokens[i]));
      if ((i + 1) % kChunk == 0) chunks.push_back(hash);
    }
    std::size_t chosen = least_loaded(loads);
    for (auto it = chunks.rbegin(); it != chunks.rend(); ++it) {
      const std::optional<std::size_t> replica = find(*it);
      if (!replica) continue;
      if (*replica < loads.size() && loads[*replica].requests <= 2 * loads[chosen].requests + kSlack)
        chosen = *replica;
      break;
    }
    for (const std::uint64_t chunk : chunks) recent_[chunk] = chosen;
    if (recent_.size() > kMaxChunks) older_ = std::exchange(recent_, {});
    return {.replica = chosen};
  }

 private:
  static constexpr std::size_t kChunk = 64;           // tokens
  static constexpr std::size_t kMaxChunks = 1 << 19;  // of each of two generations
  static constexpr std::int64_t kSlack = 8;           // requests

  std::optional<std::size_t> find(std::uint64_t chunk) const {
    for (const auto* map : {&recent_, &older_}) {
      if (const auto it = map->find(chunk); it != map->end()) return it->second;
    }
    return std::nullopt;
  }
  std::unordered_map<std::uint64_t, std::size_t> recent_, older_;
};

// What one engine's prefix cache holds, from its events alone: a block is known by the hash of all tokens up
// to its end.
class CacheMirror final : public CacheObserver {
 public:
  void on_stored(const BlockHash& hash, const BlockHash* parent, const BlockHash*,
                 std::span<const TokenId> tokens) override {
    std::uint64_t chain = 0;
    if (parent != nullptr) {
      const auto known = chains_.find(*parent);
      if (known == chains_.end()) return;
      chain = known->second;
    }
    chain = after(chain, tokens);
    block_size_ = tokens.size();
    chains_[hash] = chain;
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
  std::size_t block_size_ = 0;  // 0: nothing was stored yet
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

std::unique_ptr<Router> make_router(RouterKind kind) {
  switch (kind) {
    case RouterKind::round_robin:
      return std::make_unique<RoundRobin>();
    case RouterKind::least_loaded:
      return std::make_unique<LeastLoaded>();
    case RouterKind::prefix_aware:
      return std::make_unique<PrefixAware>();
    case RouterKind::kv_aware:
      return std::make_unique<KvAware>();
  }
  return nullptr;
}

}  // namespace pagoda
