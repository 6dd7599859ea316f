#include "page/live_frames.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "api/json.h"
#include "base/random.h"

namespace pagoda {
namespace {

namespace json = boost::json;

// Reads frames as the page's livestate.js does, in a few lines.
struct Reader {
  std::map<std::int64_t, json::array> requests, sequences;
  std::map<std::int64_t, std::vector<std::int64_t>> blocks;
  std::map<std::int64_t, bool> cached;
  json::value prefixes;
  std::int64_t number = -1, steps = 0;

  void read(const std::string& text) {
    const json::value frame = *parse_json(text);
    const json::object& o = frame.as_object();
    if (o.at("type") == "snap") *this = {};
    number = o.at("n").as_int64();
    steps += static_cast<std::int64_t>(o.at("steps").as_array().size());
    for (const auto& id : list(o, "gone")) requests.erase(id.as_int64());
    for (const auto& id : list(o, "sequences_gone")) {
      sequences.erase(id.as_int64());
      blocks.erase(id.as_int64());
    }
    for (const auto& row : list(o, "requests")) requests[row.at(0).as_int64()] = row.as_array();
    for (const auto& row : list(o, "sequences")) {
      json::array kept(row.as_array().begin(), row.as_array().begin() + 9);
      const std::int64_t id = row.at(0).as_int64();
      blocks[id].resize(static_cast<std::size_t>(row.at(9).as_int64()));
      for (const auto& block : row.at(10).as_array()) blocks[id].push_back(block.as_int64());
      sequences[id] = std::move(kept);
    }
    const json::array advance = list(o, "advance");
    for (std::size_t i = 0; i < advance.size(); i += 4) {
      json::array& row = sequences.at(advance[i].as_int64());
      for (std::size_t k = 1; k < 4; ++k) row[3 + k] = advance[i + k];
    }
    for (const auto& block : list(o, "uncached")) cached.erase(block.as_int64());
    for (const auto& block : list(o, "cached")) cached[block.as_int64()] = true;
    if (o.contains("prefixes")) prefixes = o.at("prefixes");
  }
  static json::array list(const json::object& o, std::string_view key) {
    return o.contains(key) ? o.at(key).as_array() : json::array();
  }
  bool operator==(const Reader& other) const {
    return requests == other.requests && sequences == other.sequences && blocks == other.blocks &&
           cached == other.cached && prefixes == other.prefixes;
  }
};

class Draws {
 public:
  explicit Draws(std::uint64_t seed) : seed_(seed) {}
  std::int64_t below(std::int64_t limit) {
    return static_cast<std::int64_t>(random_bits(seed_, 0, ++count_) % static_cast<std::uint64_t>(limit));
  }

 private:
  const std::uint64_t seed_;
  std::uint64_t count_ = 0;
};

// Any state that could be, and a good many that could not; ids come again, so that states are alike.
EngineSnapshot random_state(Draws& draw, const EngineSnapshot& before) {
  EngineSnapshot state;
  state.num_blocks = 64;
  state.step = before.step + draw.below(3);
  for (std::int64_t id = 1; id <= 6; ++id) {
    if (draw.below(3) == 0) continue;
    RequestSnapshot& request = state.requests.emplace_back();
    request.id = RequestId{static_cast<std::uint64_t>(id)};
    request.state = static_cast<GroupState>(draw.below(3));
    request.code = static_cast<StandingCode>(draw.below(13));
    request.position = draw.below(100);
    request.num_preemptions = static_cast<std::int32_t>(draw.below(2));
    request.first_sequence = static_cast<std::uint32_t>(state.sequences.size());
    for (std::int64_t k = 0, n = draw.below(4); k < n; ++k) {
      SequenceSnapshot& sequence = state.sequences.emplace_back();
      sequence.id = SequenceId{static_cast<std::uint64_t>(10 * id + k)};
      sequence.state = static_cast<SequenceState>(draw.below(2));
      sequence.num_tokens = static_cast<std::int32_t>(draw.below(3));
      sequence.cumulative_logprob = -static_cast<float>(draw.below(3));
      sequence.first_block = static_cast<std::uint32_t>(state.blocks.size());
      for (std::int64_t i = 0, count = draw.below(5); i < count; ++i)
        state.blocks.push_back(BlockId{static_cast<std::int32_t>(i + draw.below(2))});
      sequence.num_blocks = static_cast<std::uint32_t>(state.blocks.size()) - sequence.first_block;
    }
    request.num_sequences = static_cast<std::uint32_t>(state.sequences.size()) - request.first_sequence;
  }
  for (std::int32_t block = 20; block < 40; ++block)
    if (draw.below(2) == 0) state.cached.push_back(BlockId{block});
  if (draw.below(2) == 0) state.prefixes.push_back({.name = "a\"\xff", .blocks = {BlockId{50}}});
  for (std::int64_t i = state.step - before.step; i > 0; --i)
    state.steps.push_back({.number = state.step - i + 1});
  return state;
}

TEST(LiveFrames, SnapshotAndDeltasGiveTheStateWhereverOneBegins) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Draws draw(seed);
    EngineSnapshot before = random_state(draw, {});
    Reader reader;
    reader.read(live_snapshot(before, 0));
    for (std::int64_t n = 1; n <= 12; ++n) {
      const EngineSnapshot after = random_state(draw, before);
      if (draw.below(5) == 0)
        reader.read(live_snapshot(after, n));  // it had not kept up
      else
        reader.read(live_delta(before, after, n));
      Reader anew;
      anew.read(live_snapshot(after, n));
      ASSERT_TRUE(reader == anew) << "seed " << seed << ", frame " << n;
      ASSERT_EQ(reader.number, n);
      before = after;
    }
  }
}

TEST(LiveFrames, NothingNewIsSaidToBeNothing) {
  Draws draw(7);
  EngineSnapshot state = random_state(draw, {});
  EXPECT_TRUE(live_unchanged(state, state));
  EngineSnapshot other = state;
  ++other.step;
  EXPECT_FALSE(live_unchanged(state, other));
}

TEST(LiveFrames, ADeltaOfDecodingIsSmall) {
  EngineSnapshot before;
  before.num_blocks = 10'000;
  for (std::int32_t i = 0; i < 256; ++i) {
    before.requests.push_back({.id = RequestId{static_cast<std::uint64_t>(i + 1)},
                               .state = GroupState::running,
                               .first_sequence = static_cast<std::uint32_t>(i),
                               .num_sequences = 1});
    before.sequences.push_back({.id = SequenceId{static_cast<std::uint64_t>(i + 1)},
                                .state = SequenceState::resident,
                                .num_tokens = 500 + i,
                                .num_computed_tokens = 499 + i,
                                .first_block = static_cast<std::uint32_t>(i * 39),
                                .num_blocks = 39});
    for (std::int32_t k = 0; k < 39; ++k) before.blocks.push_back(BlockId{i * 39 + k});
  }
  EngineSnapshot after = before;
  for (SequenceSnapshot& sequence : after.sequences) ++sequence.num_tokens, ++sequence.num_computed_tokens;
  EXPECT_LT(live_snapshot(before, 0).size(), 120'000u);
  EXPECT_LT(live_delta(before, after, 1).size(), 8'000u);
}

}  // namespace
}  // namespace pagoda
