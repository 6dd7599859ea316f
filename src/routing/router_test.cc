// Goal: where each router sends a request, by what it has been told.
#include "routing/router.h"

#include <gtest/gtest.h>

#include <vector>

namespace pagoda {
namespace {

constexpr std::size_t kBlock = 16;

std::vector<TokenId> tokens(TokenId first, std::size_t count) {
  std::vector<TokenId> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(first + static_cast<TokenId>(i));
  return out;
}

Request prompt(std::vector<TokenId> ids) {
  Request request;
  request.prompt_token_ids = std::move(ids);
  return request;
}

BlockHash name(std::uint64_t number) { return {.words = {number, 0, 0, 0}}; }

// Blocks of `ids` are stored, under names from `number` on.
void store(CacheObserver& cache, const std::vector<TokenId>& ids, std::uint64_t number) {
  for (std::size_t at = 0; at + kBlock <= ids.size(); at += kBlock) {
    const BlockHash hash = name(number + at / kBlock), parent = name(number + at / kBlock - 1);
    cache.on_stored(
        {.hash = hash, .parent = at == 0 ? nullptr : &parent, .tokens = std::span(ids).subspan(at, kBlock)});
  }
}

class KvAwareRouter : public ::testing::Test {
 protected:
  KvAwareRouter() {
    for (std::size_t i = 0; i < 2; ++i) caches_.push_back(router_->cache_observer(i));
  }
  std::size_t chosen(const std::vector<TokenId>& ids, ReplicaLoad first = {}, ReplicaLoad second = {}) {
    const std::vector<ReplicaLoad> loads{first, second};
    choice_ = router_->choose(prompt(ids), loads);
    return choice_.replica;
  }
  std::unique_ptr<Router> router_ = make_router(RouterKind::kv_aware);
  std::vector<CacheObserver*> caches_;
  RouterChoice choice_;
};

TEST_F(KvAwareRouter, GoesWhereTheLongestBeginningIs) {
  const auto ids = tokens(1, 100);
  EXPECT_EQ(chosen(ids), 0U);  // nobody has it
  EXPECT_EQ(choice_.uncached_tokens, 100);
  store(*caches_[1], ids, 1);
  EXPECT_EQ(chosen(ids), 1U);
  EXPECT_EQ(choice_.uncached_tokens, 4);
  store(*caches_[0], tokens(1, 32), 1);
  EXPECT_EQ(chosen(ids), 1U);
  EXPECT_EQ(chosen(tokens(1, 20)), 0U);  // both have the one block
  EXPECT_EQ(chosen(tokens(2, 100)), 0U) << "the same tokens elsewhere are others";
}

TEST_F(KvAwareRouter, ForgetsWhatIsGone) {
  const auto ids = tokens(1, 96);
  store(*caches_[1], ids, 1);
  caches_[1]->on_removed(name(6));
  EXPECT_EQ(chosen(ids), 1U);
  EXPECT_EQ(choice_.uncached_tokens, 16);
  caches_[1]->on_removed(name(1));  // the beginning: what follows cannot be found
  EXPECT_EQ(chosen(ids), 0U);
  store(*caches_[1], ids, 1);
  caches_[1]->on_cleared();
  EXPECT_EQ(chosen(ids), 0U);
}

TEST_F(KvAwareRouter, ARequestUnderWayWeighsAsMuchAsHalfAPrompt) {
  const auto ids = tokens(1, 100);
  store(*caches_[1], tokens(1, 48), 1);
  EXPECT_EQ(chosen(ids, {}, {.requests = 1}), 0U);  // 52 * 2 against 100
  store(*caches_[1], tokens(1, 64), 1);
  EXPECT_EQ(chosen(ids, {}, {.requests = 1}), 1U);  // 36 * 2
  EXPECT_EQ(chosen(ids, {}, {.requests = 2}), 0U);  // 36 * 3
}

TEST_F(KvAwareRouter, PromptsThatAreBeingComputedCount) {
  const auto ids = tokens(1, 100);
  store(*caches_[1], tokens(1, 64), 1);
  EXPECT_EQ(chosen(ids, {}, {.requests = 1, .uncached_tokens = 13}), 1U);  // (36 + 13) * 2 against 100
  EXPECT_EQ(chosen(ids, {}, {.requests = 1, .uncached_tokens = 14}), 0U);
  EXPECT_EQ(chosen(ids, {.requests = 1, .uncached_tokens = 100}, {.requests = 1, .uncached_tokens = 100}),
            1U);
}

}  // namespace
}  // namespace pagoda
