// Goal: agents' sessions whose K/V are three times the pool find nearly as much as they could with a tier of
// four times the pool, and with one of 1.5 times. Method: sessions in the shape of Mooncake's figures
// (bench/kv_tiers/sessions.py), drawn by seeds, on the whole engine and a tier that costs time; beside it the
// best that a cache of the tier's size can find, which knows the future.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <random>
#include <set>
#include <unordered_map>

#include "cli/simulate/simulation_setup.h"
#include "sim/test_support.h"

namespace pagoda {
namespace {

using namespace sim_test;

constexpr std::int32_t kChunk = 512;  // tokens of one id

struct Shape {
  int num_sessions = 10;
  std::int32_t first = 2000, last = 7500;  // tokens
  double gap = std::numbers::e;            // median; 1: in which each session has had about one turn
};

struct Turn {
  std::int32_t tokens = 0;
  std::vector<std::uint64_t> chunks;
};

// The turns of all sessions in one order, as sessions.py has them.
std::vector<Turn> turns_of(const Shape& shape, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto draw = [&] { return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53; };
  const auto normal = [&] {
    return std::sqrt(-2 * std::log(draw())) * std::cos(2 * std::numbers::pi * draw());
  };
  std::vector<std::vector<Turn>> sessions;
  for (int i = 0; i < shape.num_sessions; ++i) {
    const std::int32_t length =
        shape.first + (shape.last - shape.first) * (2 * i + 1) / (2 * shape.num_sessions);
    const auto turn = [&](std::int32_t tokens) {
      Turn out{.tokens = tokens, .chunks = {}};
      for (std::int32_t at = 0; at * kChunk < tokens; ++at)
        out.chunks.push_back((at + 1) * kChunk <= shape.first / 2
                                 ? static_cast<std::uint64_t>(1000 * (i % 3) + at)
                                 : static_cast<std::uint64_t>(10'000 + 1000 * i + at));
      return out;
    };
    std::vector<Turn>& turns = sessions.emplace_back();
    for (std::int32_t end = shape.first; end < length; end += 300 + static_cast<std::int32_t>(draw() * 600))
      turns.push_back(turn(end));
    turns.push_back(turn(length));
  }
  std::set<std::tuple<double, std::size_t, std::size_t>> due;
  for (std::size_t i = 0; i < sessions.size(); ++i) due.emplace(draw() * shape.num_sessions, i, 0);
  std::vector<Turn> out;
  while (!due.empty()) {
    const auto [now, i, at] = *due.begin();
    due.erase(due.begin());
    out.push_back(sessions[i][at]);
    if (at + 1 < sessions[i].size()) due.emplace(now + shape.gap * std::exp(normal()), i, at + 1);
  }
  std::ranges::shuffle(sessions, random);
  for (const auto& turns : sessions) out.push_back(turns.back());
  return out;
}

// A turn's whole blocks, but for the last token.
std::vector<std::uint64_t> blocks_of(const Turn& turn) {
  std::vector<std::uint64_t> out;
  for (std::int32_t at = 0; (at + 1) * 16 < turn.tokens; ++at)
    out.push_back(turn.chunks[static_cast<std::size_t>(at * 16 / kChunk)] * (kChunk / 16) +
                  static_cast<std::uint64_t>(at % (kChunk / 16)));
  return out;
}

std::size_t num_blocks(const std::vector<Turn>& turns) {
  std::set<std::uint64_t> blocks;
  for (const Turn& turn : turns)
    for (const std::uint64_t block : blocks_of(turn)) blocks.insert(block);
  return blocks.size();
}

// Blocks that a cache of this capacity finds if it drops what is needed last, the end of a text before its
// beginning (Belady).
std::int64_t best_hits(const std::vector<Turn>& turns, std::size_t capacity) {
  using When = std::pair<std::size_t, std::size_t>;  // a turn, a place in it
  std::unordered_map<std::uint64_t, std::vector<When>> uses;
  for (std::size_t turn = turns.size(); turn-- > 0;) {
    const std::vector<std::uint64_t> blocks = blocks_of(turns[turn]);
    for (std::size_t at = 0; at < blocks.size(); ++at) uses[blocks[at]].emplace_back(turn, at);
  }
  std::unordered_map<std::uint64_t, When> held;
  std::int64_t hits = 0;
  for (const Turn& turn : turns) {
    const std::vector<std::uint64_t> blocks = blocks_of(turn);
    hits += std::ranges::find_if(blocks, [&](std::uint64_t block) { return !held.contains(block); }) -
            blocks.begin();
    for (const std::uint64_t block : blocks) {
      uses[block].pop_back();
      held[block] = uses[block].empty() ? When(turns.size(), block) : uses[block].back();
    }
    if (held.size() <= capacity) continue;
    std::vector<std::pair<When, std::uint64_t>> order;
    for (const auto& [block, when] : held) order.emplace_back(when, block);
    std::ranges::nth_element(order, order.begin() + static_cast<std::ptrdiff_t>(capacity));
    for (std::size_t i = capacity; i < order.size(); ++i) held.erase(order[i].second);
  }
  return hits;
}

// Blocks found by the engine; each turn comes when the one before it has been answered.
std::int64_t hits(const std::vector<Turn>& turns, std::size_t pool, std::size_t tier) {
  constexpr double kBlockBytes = 16 * 23e3, kTierBytesPerSecond = 3e8;
  EngineFlags flags;
  flags.block_size = 16;
  flags.max_num_seqs = 1;
  flags.max_num_batched_tokens = 2048;
  CostModel cost = plain_cost_model();
  cost.max_model_len = 8192;
  cost.kv_bytes_per_token = kBlockBytes / 16;
  cost.kv_cache_bytes = kBlockBytes * static_cast<double>(pool);
  SimulationOptions options = checked(simulation_options(flags, cost));
  options.num_blocks = static_cast<std::int64_t>(pool);
  options.engine.kv_tiers = tier > 0;
  options.check_invariants = false;  // for time; engine/kv_tiers_test.cc does
  options.tiers = {.num_blocks = static_cast<std::int64_t>(tier),
                   .block_bytes = kBlockBytes,
                   .bytes_per_s = kTierBytesPerSecond};
  std::vector<WorkloadRequest> requests;
  for (const Turn& turn : turns) {
    requests.push_back(request_at(0.001 * static_cast<double>(requests.size()), turn.tokens, 4));
    requests.back().prefix_hash_ids = turn.chunks;
  }
  ListWorkload workload(std::move(requests));
  std::int64_t found = 0;
  const auto summary = simulate(options, workload,
                                {.on_outcome =
                                     [&](const SimulatedOutcome& outcome) {
                                       found += outcome.cached_tokens / 16;
                                       EXPECT_EQ(outcome.reason, "length");
                                     },
                                 .on_progress = {}});
  EXPECT_TRUE(summary) << (summary ? "" : summary.error().message());
  return found;
}

TEST(SessionHits, AreNearlyTheBestPossible) {
  for (const Shape& shape : {Shape{.num_sessions = 8}, Shape{}, Shape{.num_sessions = 16, .gap = 8},
                             Shape{.num_sessions = 12, .first = 1500, .last = 6000, .gap = 1.5}}) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      const std::vector<Turn> turns = turns_of(shape, seed);
      const std::size_t pool = std::max<std::size_t>(num_blocks(turns) / 3, 512);
      const auto all = static_cast<double>(best_hits(turns, std::numeric_limits<std::int32_t>::max()));
      const auto best = static_cast<double>(best_hits(turns, pool * 3 / 2));
      const auto large = static_cast<double>(hits(turns, pool, 4 * pool));
      const auto small = static_cast<double>(hits(turns, pool, pool * 3 / 2));
      EXPECT_GE(large, 0.95 * all) << shape.num_sessions << " sessions, seed " << seed;
      EXPECT_GE(small, 0.9 * best) << shape.num_sessions << " sessions, seed " << seed;
    }
  }
}

}  // namespace
}  // namespace pagoda
