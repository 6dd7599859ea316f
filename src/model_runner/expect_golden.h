#pragma once
// For tests: compares a model runner with one line of a golden file, in float32. Log-probabilities must agree
// within 1e-3 unless a test passes another tolerance.
#include <gtest/gtest.h>

#include "model_runner/test_sequences.h"

namespace pagoda::testing {

inline constexpr double kGoldenTolerance = 1e-3;

inline void expect_top(const std::vector<TokenLogprob>& got, const boost::json::value& expected) {
  const boost::json::array& entries = expected.as_array();
  ASSERT_GE(got.size(), entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const double want = entries[i].as_array()[1].to_number<double>();
    EXPECT_NEAR(got[i].logprob, want, kGoldenTolerance);
    const bool near_tie =
        (i > 0 && entries[i - 1].as_array()[1].to_number<double>() - want < kGoldenTolerance) ||
        (i + 1 < entries.size() &&
         want - entries[i + 1].as_array()[1].to_number<double>() < kGoldenTolerance) ||
        i + 1 == entries.size();
    if (!near_tie) EXPECT_EQ(got[i].token, entries[i].as_array()[0].to_number<TokenId>());
  }
}

// Checks one golden line: the prompt's log-probabilities, then the golden continuation, token by token.
inline void expect_golden(Driver driver, const boost::json::object& line, double tolerance = kGoldenTolerance,
                          AdapterId adapter = kNoAdapter) {
  SCOPED_TRACE(line.contains("name") ? std::string(line.at("name").as_string()) : "unnamed");
  TestSequence sequence = greedy(ids_of(line.at("prompt_ids")));
  sequence.adapter = adapter;
  sequence.prompt_logprobs = 10;
  sequence.params.logprobs = 10;
  ASSERT_TRUE(driver.step({&sequence}, 1 << 20).ok());

  // Some long prompts have no log-probabilities.
  if (line.contains("prompt_logprobs") && line.at("prompt_logprobs").is_array()) {
    const std::vector<double> expected = numbers_of(line.at("prompt_logprobs"));
    ASSERT_EQ(sequence.prompt_scores.size(), sequence.tokens.size() - 1);
    if (!expected.empty()) ASSERT_EQ(sequence.prompt_scores.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(sequence.prompt_scores[i].chosen.logprob, expected[i], tolerance)
          << "prompt token " << i + 1;
    }
  }
  if (const boost::json::value* top = line.if_contains("prompt_top10")) {
    for (std::size_t i = 0; i < sequence.prompt_scores.size(); ++i) {
      expect_top(sequence.prompt_scores[i].top, top->as_array()[i]);
    }
  }

  const std::vector<TokenId> ids = ids_of(line.at("greedy_ids"));
  const std::vector<double> logprobs = numbers_of(line.at("greedy_logprobs"));
  const boost::json::value* top = line.if_contains("greedy_top5");
  if (top == nullptr) top = line.if_contains("top5");
  const std::vector<double> gaps =
      line.contains("gap") ? numbers_of(line.at("gap")) : std::vector<double>(ids.size(), 1);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const Candidate& got = sequence.sampled.back();
    if (gaps[i] > kGoldenTolerance) EXPECT_EQ(got.token, ids[i]) << "step " << i;
    if (got.token == ids[i]) EXPECT_EQ(got.rank, 1);
    EXPECT_NEAR(got.logprob, logprobs[i], tolerance) << "step " << i;
    if (top != nullptr) expect_top(sequence.top.back(), top->as_array()[i]);
    if (i + 1 == ids.size()) break;
    sequence.tokens.push_back(ids[i]);
    ASSERT_TRUE(driver.step({&sequence}, 1).ok());
  }
}
inline void expect_golden(ModelRunner& runner, std::int32_t block_size, const boost::json::object& line,
                          double tolerance = kGoldenTolerance) {
  expect_golden(Driver(runner, block_size), line, tolerance);
}

}  // namespace pagoda::testing
