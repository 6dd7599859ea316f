// Shared prefixes through the engine: Fig. 10 of PagedAttention (SOSP'23), and what must not go wrong.
#include <gtest/gtest.h>

#include "engine/engine_test_support.h"

namespace pagoda {
namespace {

using fake::Collector;
using fake::make_request;
using fake::Options;
using fake::Rig;

std::shared_ptr<Collector> add(Rig& rig, const std::string& name, std::vector<TokenId> tokens) {
  auto sink = std::make_shared<Collector>();
  const Status status = rig.core->prefixes().add(name, std::move(tokens), sink);
  EXPECT_TRUE(status.ok()) << status.message();
  return sink;
}

void expect_reference(const Request& request, const Collector& got) {
  const fake::Reference wanted = fake::reference(request, 0, 64);
  ASSERT_TRUE(got.finished);
  EXPECT_EQ(got.choices.at(0).tokens, wanted.tokens);
}

// Fig. 10: two requests share the prefix's blocks; here its last block is half full, and each gets a copy.
TEST(Prefix, Figure10) {
  for (const bool caching : {false, true}) {
    Options options;
    options.engine.enable_prefix_caching = caching;
    Rig rig(options);
    const std::vector<TokenId> prefix(10, 5);  // two blocks of 4 and a half
    const auto added = add(rig, "translate", prefix);
    rig.run_all();
    EXPECT_TRUE(added->finished && added->error.ok());
    ASSERT_EQ(rig.core->prefixes().list().size(), 1u);
    EXPECT_EQ(rig.core->prefixes().list()[0].num_blocks, 3);
    EXPECT_EQ(rig.core->kv().inspection().usage().blocks_in_use, 3);
    const std::int64_t computed = rig.runner->num_computed_tokens;

    std::vector<TokenId> a = prefix, b = prefix;
    a.insert(a.end(), {1, 2, 3});
    b.insert(b.end(), {4, 4, 4, 4});
    const Request first = make_request(1, a, 5), second = make_request(2, b, 5),
                  same = make_request(3, prefix, 5);
    const auto x = rig.submit(first), y = rig.submit(second), z = rig.submit(same);
    rig.step();
    EXPECT_EQ(rig.runner->num_copies, 3) << "the half block, once for each";
    EXPECT_EQ(rig.runner->num_computed_tokens - computed, 3 + 4 + 1) << "only the rest of each prompt";
    EXPECT_EQ(x->num_cached_tokens, 10);
    EXPECT_EQ(z->num_cached_tokens, 9) << "the last token is needed for its logits";
    rig.run_all();
    expect_reference(first, *x);
    expect_reference(second, *y);
    expect_reference(same, *z);

    EXPECT_EQ(rig.core->kv().sharing().num_pinned_blocks(), 3) << "no request takes it away";
    EXPECT_TRUE(rig.core->prefixes().drop("translate").ok());
    EXPECT_EQ(rig.core->prefixes().drop("translate").code(), StatusCode::not_found);
    EXPECT_EQ(rig.core->kv().num_free_blocks(), 64);
    rig.core->check_invariants();
  }
}

TEST(Prefix, DroppedWhileInUseItStaysWithItsUsers) {
  Rig rig({});
  const std::vector<TokenId> prefix(9, 3);
  add(rig, "p", prefix);
  rig.run_all();
  std::vector<TokenId> prompt = prefix;
  prompt.push_back(1);
  const Request request = make_request(1, prompt, 20);
  const auto sink = rig.submit(request);
  rig.step();
  EXPECT_TRUE(rig.core->prefixes().drop("p").ok());
  rig.run_all();
  expect_reference(request, *sink);
  EXPECT_EQ(rig.core->kv().num_free_blocks(), 64);
}

TEST(Prefix, WhatCannotBePinnedIsRefused) {
  Options options;
  options.num_blocks = 12;
  options.engine.max_model_len = 48;
  options.engine.enable_prefix_caching = false;
  Rig rig(options);
  auto sink = std::make_shared<Collector>();
  EXPECT_EQ(rig.core->prefixes().add("", {1}, sink).param(), "name");
  EXPECT_EQ(rig.core->prefixes().add("empty", {}, sink).param(), "prompt");
  EXPECT_EQ(rig.core->prefixes().add("long", std::vector<TokenId>(25, 1), sink).param(), "prompt");
  EXPECT_EQ(rig.core->prefixes().add("ids", {fake::kVocabulary}, sink).param(), "prompt");
  add(rig, "p", std::vector<TokenId>(8, 1));
  const Status twice = rig.core->prefixes().add("p", {1}, sink);
  EXPECT_EQ(twice.code(), StatusCode::already_exists);
  EXPECT_EQ(twice.param(), "name");
  EXPECT_TRUE(rig.core->prefixes().drop("p").ok()) << "before it was computed";
  EXPECT_TRUE(rig.core->prefixes().list().empty());

  // A request accepted with the whole cache is not squeezed out: the prefix is refused instead.
  const Request large = make_request(1, {1, 2, 3}, 44);
  const auto large_sink = rig.submit(large);
  const auto late = add(rig, "q", std::vector<TokenId>(8, 1));
  rig.step();
  EXPECT_TRUE(late->finished);
  EXPECT_EQ(late->error.code(), StatusCode::resource_exhausted);
  rig.run_all();
  expect_reference(large, *large_sink);
  add(rig, "q", std::vector<TokenId>(8, 1));
  rig.run_all();
  EXPECT_EQ(rig.core->kv().sharing().num_pinned_blocks(), 2);
  EXPECT_EQ(rig.core->validate(large).param(), "max_tokens") << "now it can never fit";
}

// Swapped out, a gang has its own copy of the prefix, and what it shared no longer fits when it comes back.
TEST(Prefix, AGangThatNoLongerFitsIsRecomputedAndSharesItAgain) {
  Options options;
  options.num_blocks = options.num_swap_blocks = 12;
  options.engine.max_model_len = 32;
  options.engine.preemption_mode = PreemptionMode::swap;
  Rig rig(options);
  const std::vector<TokenId> prefix(16, 5);
  add(rig, "p", prefix);
  rig.run_all();
  const Request first = make_request(1, {1, 2, 3}, 20);
  std::vector<TokenId> prompt = prefix;
  prompt.push_back(1);
  Request gang = make_request(2, prompt, 12);
  gang.sampling.n = gang.sampling.best_of = 3;
  gang.sampling.temperature = 1;
  gang.sampling.seed = 7;
  const auto first_sink = rig.submit(first), sink = rig.submit(gang);
  rig.run_all();
  EXPECT_GT(rig.core->scheduler().counts().preemptions_by_swap, 0);
  expect_reference(first, *first_sink);
  ASSERT_TRUE(sink->finished);
  for (std::int32_t i = 0; i < 3; ++i)
    EXPECT_EQ(sink->choices.at(i).tokens, fake::reference(gang, i, 32).tokens) << i;
  EXPECT_EQ(rig.core->kv().sharing().num_pinned_blocks(), 4);
}

// Runs the request by itself: how many tokens of its prompt were cached.
std::int32_t cached_tokens(Rig& rig, const Request& request) {
  const auto sink = rig.submit(request);
  rig.run_all();
  expect_reference(request, *sink);
  rig.core->check_invariants();
  return sink->num_cached_tokens;
}

// A sequence's possible length decides how its keys are rotated: K/V of another rotation are not its own.
TEST(Prefix, IsFoundByRequestsOfTheSameRotationAlone) {
  for (const bool by_length : {false, true}) {
    Options options;
    options.engine.rotation = {.original = 24, .by_length = by_length};
    Rig rig(options);
    std::uint64_t id = 0;
    const auto cached = [&](std::int32_t max_tokens, const std::string& salt = "") {
      Request request = make_request(++id, std::vector<TokenId>(17, 3), max_tokens);
      request.cache_salt = salt;
      return cached_tokens(rig, request);
    };
    EXPECT_EQ(cached(7), 0);
    EXPECT_EQ(cached(7), 16);
    EXPECT_EQ(cached(8), 0) << "25 tokens: behind the original context";
    EXPECT_EQ(cached(8), 16);
    EXPECT_EQ(cached(9), by_length ? 0 : 16);
    EXPECT_EQ(cached(6), 16) << "short again";
    EXPECT_EQ(cached(7, std::string("\1") + "1\1"), 0) << "no client's salt is that of a rotation";
  }
}

// An adapter's K/V are found by requests of the same content alone, under whatever id it was loaded.
TEST(Prefix, IsFoundByRequestsOfTheSameAdapterAlone) {
  Rig rig(Options{});
  std::uint64_t id = 0;
  const auto cached = [&](std::shared_ptr<const RequestAdapter> adapter, const std::string& salt = "") {
    Request request = make_request(++id, std::vector<TokenId>(17, 3), 4);
    request.adapter = std::move(adapter);
    request.cache_salt = salt;
    return cached_tokens(rig, request);
  };
  EXPECT_EQ(cached(nullptr), 0);
  EXPECT_EQ(cached(fake::adapter(1)), 0);
  EXPECT_EQ(cached(fake::adapter(1)), 16);
  EXPECT_EQ(cached(fake::adapter(2)), 0);
  EXPECT_EQ(cached(fake::adapter(1), "salt"), 0) << "a client's salt counts beside it";
  EXPECT_EQ(cached(nullptr), 16);
  auto changed = std::make_shared<RequestAdapter>(*fake::adapter(1));
  changed->identity = "other content";
  EXPECT_EQ(cached(changed), 0) << "the name and id are no part of it";
  EXPECT_EQ(
      cached(nullptr, make_request(1, {1}, 1).cache_salt + std::string("\1") + "0\2" + "9\2content 1\1"), 0)
      << "no client's salt is that of an adapter";
}

// A pinned prefix is the model's: whoever has an adapter, or another rotation, computes its own.
TEST(Prefix, APinnedOneIsNotUsedUnderAnAdapterOrAnotherRotation) {
  Options options;
  options.engine.rotation = {.original = 24, .by_length = true};
  for (const bool caching : {false, true}) {
    options.engine.enable_prefix_caching = caching;
    Rig rig(options);
    const std::vector<TokenId> prefix(10, 5);
    add(rig, "p", prefix);
    rig.run_all();
    std::vector<TokenId> prompt = prefix;
    prompt.push_back(1);
    const auto cached = [&](std::uint64_t id, int adapter, std::int32_t max_tokens) {
      Request request = make_request(id, prompt, max_tokens);
      request.adapter = fake::adapter(adapter);
      const auto sink = rig.submit(request);
      rig.run_all();
      expect_reference(request, *sink);
      return sink->num_cached_tokens;
    };
    EXPECT_EQ(cached(1, 0, 4), 10);
    EXPECT_EQ(cached(2, 1, 4), 0);
    EXPECT_EQ(cached(3, 0, 20), 0) << "31 tokens: of a rotation of their own";
    EXPECT_EQ(cached(4, 0, 4), 10);
  }
}

}  // namespace
}  // namespace pagoda
