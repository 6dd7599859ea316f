#include "kv_cache/prefix_index.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace pagoda {
namespace {

// Goal: a row is found under exactly the text, salt and group that it was published for. Method: a map whose
// keys are whole texts. With hashes of few bits, texts collide: then verified hits have the right tokens.
void compare_index(std::uint64_t seed, std::int32_t hash_bits) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed << ", " << hash_bits << " bits");
  std::mt19937_64 rng(seed);
  const auto below = [&](std::uint64_t n) { return static_cast<std::int32_t>(rng() % n); };
  constexpr std::int32_t kSize = 2, kNumBlocks = 24;
  BlockPool pool(kNumBlocks);
  PrefixIndex prefixes({.model_id = "m",
                        .block_size = kSize,
                        .num_blocks = kNumBlocks,
                        .hash_bits = hash_bits,
                        .verify_hits = hash_bits < 256},
                       pool);
  using Text = std::pair<std::string, std::vector<TokenId>>;  // with its salt
  std::map<std::pair<Text, std::size_t>, BlockId> known;
  std::map<BlockId, std::vector<TokenId>> content;
  for (int step = 0; step < 300; ++step) {
    Text text = {below(2) == 0 ? "" : "salt", {}};
    BlockHash hash = prefixes.root(text.first);
    std::vector<TokenId> row;
    for (std::int32_t rows = 1 + below(3); rows > 0; --rows) {
      row = {below(2), below(2)};
      hash = prefixes.next(hash, row);
      text.second.insert(text.second.end(), row.begin(), row.end());
    }
    const auto group = static_cast<std::size_t>(below(2));
    const auto found = prefixes.find(hash, group, row);
    const auto model = known.find({text, group});
    if (hash_bits == 256)
      ASSERT_EQ(found, model == known.end() ? std::nullopt : std::optional(model->second));
    if (found) ASSERT_EQ(content.at(*found), row);
    if (below(2) == 0) continue;
    const auto block = pool.allocate_one();  // evicts, if need be
    ASSERT_TRUE(block);
    std::erase_if(known, [&](const auto& entry) { return entry.second == *block; });
    const bool taken = prefixes.publish(*block, hash, group, row, {});
    if (hash_bits == 256) ASSERT_EQ(taken, !known.contains({text, group})) << "the first keeps it";
    if (taken) known[{text, group}] = *block;
    if (taken) content[*block] = row;
    pool.release_one(*block);
    pool.check_invariants();
  }
}

TEST(PrefixIndexProperty, AgreesWithAMapOfTexts) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    for (const std::int32_t bits : {256, 3}) compare_index(seed, bits);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace pagoda
