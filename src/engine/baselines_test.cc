// The paper's baselines through the engine: Orca and FasterTransformer on whole reservations.
#include <gtest/gtest.h>

#include "engine/engine_test_support.h"

namespace pagoda {
namespace {

using fake::Collector;
using fake::make_request;
using fake::Mode;
using fake::Options;
using fake::Rig;

void expect_tokens(const Request& request, const Collector& got) {
  ASSERT_TRUE(got.finished);
  EXPECT_EQ(got.choices.at(0).tokens, fake::reference(request, 0, 64).tokens);
}

// Eight token slots reserved for each, room for two: the third waits for a whole region, and nobody passes
// it.
TEST(EngineCore, OrcaAdmitsInOrderAndNeverPreempts) {
  Options options;
  options.mode = Mode::orca;
  options.num_blocks = 4;
  Rig rig(options);
  std::vector<Request> requests;
  std::vector<std::shared_ptr<Collector>> sinks;
  for (std::uint64_t i = 1; i <= 4; ++i) {
    requests.push_back(make_request(i, {static_cast<TokenId>(i), 2, 3}, i == 1 ? 3 : i == 4 ? 1 : 5));
    sinks.push_back(rig.submit(requests.back()));
  }
  for (int i = 0; i < 3; ++i) {
    rig.step();
    EXPECT_EQ(sinks[2]->num_outputs, 0);
    EXPECT_EQ(sinks[3]->num_outputs, 0) << "it would fit, but it is not its turn";
  }
  EXPECT_TRUE(sinks[0]->finished);
  rig.step();
  EXPECT_EQ(sinks[2]->num_outputs, 1) << "it took the region as soon as that was free";
  rig.run_all();
  EXPECT_EQ(rig.core->scheduler().counts().preemptions, 0);
  for (std::size_t i = 0; i < 4; ++i) expect_tokens(requests[i], *sinks[i]);
}

TEST(EngineCore, FasterTransformerAnswersABatchTogether) {
  Options options;
  options.mode = Mode::fastertransformer;
  options.num_blocks = 32;
  options.reservation = Reservation::max;  // two of 64 slots
  Rig rig(options);
  std::vector<Request> requests;
  std::vector<std::shared_ptr<Collector>> sinks;
  for (std::uint64_t i = 1; i <= 3; ++i) {
    requests.push_back(make_request(i, {static_cast<TokenId>(i), 2, 3}, i == 1 ? 2 : 5));
    sinks.push_back(rig.submit(requests.back()));
  }
  for (int i = 0; i < 4; ++i) {
    rig.step();
    EXPECT_EQ(sinks[0]->num_outputs + sinks[1]->num_outputs + sinks[2]->num_outputs, 0);
    EXPECT_EQ(rig.core->kv().num_free_blocks(), 0) << "the first has ended and keeps its region";
  }
  rig.step();
  EXPECT_TRUE(sinks[0]->finished);
  EXPECT_TRUE(sinks[1]->finished);
  EXPECT_EQ(rig.core->scheduler().counts().padded_tokens, 3) << "rows of the first, after its end";
  EXPECT_EQ(sinks[2]->num_outputs, 0);
  rig.run_all();
  for (std::size_t i = 0; i < 3; ++i) expect_tokens(requests[i], *sinks[i]);
}

TEST(EngineCore, WhatCanNeverBeReservedIsRefusedNamingTheLimit) {
  Options options;
  options.mode = Mode::orca;
  options.num_blocks = 6;  // 24 slots: regions of 4 and of 2 blocks
  Rig rig(options);
  const auto param = [&](Request request) {
    return std::string(rig.core->submit(std::move(request), std::make_shared<Collector>()).param());
  };
  EXPECT_EQ(param(make_request(1, {1, 2}, 20)), "max_tokens");
  Request pair = make_request(2, {1, 2}, 10);
  pair.sampling.n = pair.sampling.best_of = 2;
  EXPECT_EQ(param(pair), "n");
  pair.sampling.best_of = 3;
  EXPECT_EQ(param(pair), "best_of");
  EXPECT_TRUE(rig.core->idle());
  options.mode = Mode::fastertransformer;
  Rig batches(options);
  pair.sampling = {};
  pair.sampling.temperature = 0;
  pair.sampling.use_beam_search = true;
  pair.sampling.beam_width = 2;
  EXPECT_EQ(batches.core->submit(std::move(pair), std::make_shared<Collector>()).param(), "use_beam_search");
}

}  // namespace
}  // namespace pagoda
