// The replica that has seen the longest prefix of the prompt, unless it is much busier than others.
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/random.h"
#include "routing/router.h"

namespace pagoda {
namespace {

// Remembers which replica got the chunks of earlier prompts; a chunk is identified by the hash of all tokens
// up to its end.
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
  static constexpr std::size_t kMaxChunks = 1 << 19;  // chunks in each of two generations
  static constexpr std::int64_t kSlack = 8;           // requests

  std::optional<std::size_t> find(std::uint64_t chunk) const {
    for (const auto* map : {&recent_, &older_}) {
      if (const auto it = map->find(chunk); it != map->end()) return it->second;
    }
    return std::nullopt;
  }
  std::unordered_map<std::uint64_t, std::size_t> recent_, older_;
};

}  // namespace

std::unique_ptr<Router> make_prefix_aware_router() { return std::make_unique<PrefixAware>(); }

}  // namespace pagoda
