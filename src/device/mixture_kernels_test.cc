// Goal: the kernels of mixtures choose the experts that kernels/reference chooses, with its weights, also
// where logits are equal or not numbers; products of sorted pairs are those of each pair alone; and a row's
// bits do not depend on the other rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "device/test_support.h"
#include "kernels/mixture.h"
#include "kernels/testing.h"

namespace pagoda::device {
namespace {

std::int32_t drawn_count(std::uint64_t seed, std::uint64_t what, std::int32_t least, std::int32_t most) {
  return least +
         static_cast<std::int32_t>(random_bits(seed, 1, what) % static_cast<std::uint64_t>(most - least + 1));
}

TEST(MixtureKernels, RouteAsTheReference) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    RoutingRule rule;
    rule.score = static_cast<RouterScore>(seed % 3);
    rule.num_groups = seed % 4 == 3 ? drawn_count(seed, 0, 2, 6) : 1;
    rule.groups_used = drawn_count(seed, 1, 1, rule.num_groups);
    rule.num_experts = rule.num_groups * drawn_count(seed, 2, 1, 12);
    rule.per_token = drawn_count(seed, 3, 1, rule.num_experts / rule.num_groups * rule.groups_used);
    rule.group_is_best_two = seed % 2 == 0;
    rule.renormalize = seed % 5 == 0;
    rule.scale = 1.5f;
    const std::int32_t rows = drawn_count(seed, 4, 1, 5);
    const auto experts = static_cast<std::size_t>(rule.num_experts);
    const auto pairs = static_cast<std::size_t>(rows * rule.per_token);
    auto logits = random_floats(seed, static_cast<std::size_t>(rows) * experts, 3);
    if (seed % 6 == 0)  // many are equal
      for (float& value : logits) value = std::round(value);
    if (rule.score == RouterScore::sigmoid && seed % 7 == 0) logits[experts / 2] = NAN;
    const auto correction = random_floats(seed + 9, experts);
    const bool corrected = seed % 3 == 2;
    KernelBench bench(seed);
    auto* const chosen = bench.make<std::int32_t>(pairs);
    auto* const weights = bench.make<float>(pairs);
    ASSERT_TRUE(bench.run()
                    .route({.logits = bench.put(logits),
                            .correction = corrected ? bench.put(correction) : nullptr,
                            .chosen = chosen,
                            .weights = weights,
                            .experts = rule.num_experts,
                            .per_token = rule.per_token,
                            .groups = rule.num_groups,
                            .groups_used = rule.groups_used,
                            .best_two = rule.group_is_best_two ? 1 : 0,
                            .score = static_cast<Score>(rule.score),
                            .renormalize = rule.renormalize ? 1 : 0,
                            .scale = rule.scale},
                           rows)
                    .ok());
    std::vector<std::int32_t> wanted(pairs);
    std::vector<float> wanted_weights(pairs);
    route(kReference, rule, logits.data(), rows, corrected ? correction : std::vector<float>(), wanted.data(),
          wanted_weights.data());
    EXPECT_EQ(bench.get(chosen, pairs), wanted);
    const std::vector<float> got = bench.get(weights, pairs);
    for (std::size_t i = 0; i < pairs; ++i)
      if (!std::isnan(wanted_weights[i])) EXPECT_NEAR(got[i], wanted_weights[i], 1e-5) << i;
  }
}

// route_and_group() sorts as group_pairs() does.
TEST(MixtureKernels, ASingleRowIsSortedWhileItIsRouted) {
  for (const auto& [per_token, experts] : {std::pair{1, 4}, {8, 128}, {33, 40}}) {
    SCOPED_TRACE(::testing::Message() << per_token << " of " << experts);
    const auto pairs = static_cast<std::size_t>(per_token);
    const auto most = static_cast<std::size_t>(most_tiles(per_token, experts));
    KernelBench bench(1);
    RouteArgs args = {.logits = bench.put(random_floats(5, 2 * static_cast<std::size_t>(experts), 3)),
                      .chosen = bench.make<std::int32_t>(2 * pairs),
                      .weights = bench.make<float>(2 * pairs),
                      .experts = experts,
                      .per_token = per_token,
                      .slots = bench.make<std::int32_t>(2 * pairs),
                      .tiles = bench.make<TileOfPairs>(2 * most)};
    ASSERT_TRUE(bench.run().route_and_group(args, 1).ok());
    auto* const slots = bench.make<std::int32_t>(pairs);
    auto* const tiles = bench.make<TileOfPairs>(most);
    ASSERT_TRUE(bench.run().group_pairs({args.chosen, slots, tiles, per_token, experts}).ok());
    EXPECT_EQ(bench.get(args.slots, pairs), bench.get(slots, pairs));
    const auto got = bench.get(args.tiles, most), wanted = bench.get(tiles, most);
    for (std::size_t i = 0; i < most; ++i)
      EXPECT_EQ(std::tie(got[i].expert, got[i].first, got[i].behind),
                std::tie(wanted[i].expert, wanted[i].first, wanted[i].behind));
    // Two rows are sorted by a launch of their own.
    EXPECT_TRUE(bench.run().route_and_group(args, 2).ok());
    auto sorted = bench.get(args.slots, 2 * pairs);
    std::ranges::sort(sorted);
    std::vector<std::int32_t> all(2 * pairs);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(sorted, all);
  }
}

TEST(MixtureKernels, PairsAreSortedByExpert) {
  for (const auto& [pairs, experts] :
       {std::pair{1, 1}, {1, 128}, {8, 128}, {64, 3}, {65, 5}, {333, 1024}, {2000, 60}}) {
    SCOPED_TRACE(::testing::Message() << pairs << " pairs of " << experts);
    const auto seed = static_cast<std::uint64_t>(pairs);
    std::vector<std::int32_t> chosen;
    for (std::int32_t pair = 0; pair < pairs; ++pair)
      chosen.push_back(pair % 5 == 0 ? experts - 1
                                     : drawn_count(seed, static_cast<std::uint64_t>(pair), 0, experts - 1));
    KernelBench bench(seed);
    const auto most = static_cast<std::size_t>(most_tiles(pairs, experts));
    auto* const slots = bench.make<std::int32_t>(static_cast<std::size_t>(pairs));
    auto* const tiles = bench.make<TileOfPairs>(most);
    ASSERT_TRUE(bench.run().group_pairs({bench.put(chosen), slots, tiles, pairs, experts}).ok());
    std::vector<std::int32_t> wanted(static_cast<std::size_t>(pairs));
    std::iota(wanted.begin(), wanted.end(), 0);
    std::ranges::sort(wanted, {}, [&](std::int32_t pair) {
      return std::pair(chosen[static_cast<std::size_t>(pair)], pair);
    });
    EXPECT_EQ(bench.get(slots, wanted.size()), wanted);
    std::int32_t behind = 0;
    bool ended = false;
    for (const TileOfPairs& tile : bench.get(tiles, most)) {
      if (tile.expert < 0) {
        ended = true;
        continue;
      }
      ASSERT_FALSE(ended);
      ASSERT_EQ(tile.first, behind);
      ASSERT_TRUE(tile.behind > tile.first && tile.behind - tile.first <= kPairsOfTile);
      for (std::int32_t slot = tile.first; slot < tile.behind; ++slot)
        ASSERT_EQ(chosen[static_cast<std::size_t>(wanted[static_cast<std::size_t>(slot)])], tile.expert);
      behind = tile.behind;
    }
    EXPECT_EQ(behind, pairs);
  }
}

TEST(MixtureKernels, ProductsOfSortedPairs) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    const std::int32_t rows = drawn_count(seed, 0, 1, 30), per_token = drawn_count(seed, 1, 1, 3),
                       experts = drawn_count(seed, 2, per_token, 9), n = drawn_count(seed, 3, 1, 40),
                       k = drawn_count(seed, 4, 1, 70);
    const bool weighed = seed % 3 == 0, with_bias = seed % 2 == 0, accumulate = seed % 4 == 1;
    const auto size = [](std::int32_t a, std::int32_t b) {
      return static_cast<std::size_t>(a) * static_cast<std::size_t>(b);
    };
    const auto x = random_floats(seed, size(rows, k)), w = random_floats(seed + 1, size(experts * n, k)),
               bias = random_floats(seed + 2, size(experts, n)),
               weights = random_floats(seed + 3, size(rows, per_token)),
               before = random_floats(seed + 4, size(rows, n));
    std::vector<std::int32_t> chosen;
    for (std::int32_t row = 0; row < rows; ++row)  // as one draws without putting back; uneven
      for (std::int32_t j = 0; j < per_token; ++j)
        chosen.push_back(
            std::min(experts - per_token, drawn_count(seed, 50 + static_cast<std::uint64_t>(row), 0, 3)) + j);
    // Rows [first, rows) by themselves.
    const auto mix = [&](std::int32_t first) {
      const std::int32_t count = rows - first, pairs = count * per_token;
      const auto from = [&](const auto& values, std::int32_t width) {
        return std::vector(values.begin() + static_cast<std::ptrdiff_t>(size(first, width)), values.end());
      };
      KernelBench bench(seed);
      auto* const tiles = bench.make<TileOfPairs>(static_cast<std::size_t>(most_tiles(pairs, experts)));
      auto* const slots = bench.make<std::int32_t>(static_cast<std::size_t>(pairs));
      auto* const made = bench.make<float>(size(pairs, n));
      auto* const y = bench.put(from(before, n));
      const float* const weights_there = bench.put(from(weights, per_token));
      EXPECT_TRUE(
          bench.run().group_pairs({bench.put(from(chosen, per_token)), slots, tiles, pairs, experts}).ok());
      GroupedLinearArgs args = {.x = bench.put(from(x, k)), .weight = bench.put(w)};
      args.bias = with_bias ? bench.put(bias) : nullptr;
      args.factors = weighed ? weights_there : nullptr;
      args.y = made;
      args.slots = slots;
      args.tiles = tiles;
      args.pairs = pairs;
      args.experts = experts;
      args.n = n;
      args.k = k;
      args.pairs_of_row = per_token;
      EXPECT_TRUE(bench.run().grouped_linear(Element::f32, args).ok());
      EXPECT_TRUE(
          bench.run()
              .combine({made, weighed ? nullptr : weights_there, y, n, per_token, accumulate ? 1 : 0}, count)
              .ok());
      return bench.get(y, size(count, n));
    };
    const std::vector<float> got = mix(0);
    for (std::int32_t row = 0; row < rows; ++row)
      for (std::int32_t column = 0; column < n; ++column) {
        double sum = accumulate ? before[size(row, n) + static_cast<std::size_t>(column)] : 0;
        for (std::int32_t j = 0; j < per_token; ++j) {
          const auto pair = size(row, per_token) + static_cast<std::size_t>(j);
          const auto line = static_cast<std::size_t>(chosen[pair] * n + column);
          double product = 0;
          for (std::int32_t i = 0; i < k; ++i)
            product += static_cast<double>(x[size(row, k) + static_cast<std::size_t>(i)]) *
                       w[line * static_cast<std::size_t>(k) + static_cast<std::size_t>(i)];
          const double made = (weighed ? weights[pair] * product : product) + (with_bias ? bias[line] : 0);
          sum += weighed ? made : weights[pair] * made;
        }
        ASSERT_NEAR(got[size(row, n) + static_cast<std::size_t>(column)], sum,
                    1e-4 * std::max(1.0, std::abs(sum)));
      }
    const std::vector<float> alone = mix(rows - 1);
    EXPECT_TRUE(same_bits(alone, {got.end() - n, got.end()}));
  }
}

}  // namespace
}  // namespace pagoda::device
