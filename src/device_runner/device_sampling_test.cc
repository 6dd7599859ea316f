// Goal: the sampling kernels draw what the host's sampler draws, for random logits and parameters: the same
// logits behind the edits, the same tokens left by the cuts, and at (seed, stream, position) the token at
// that place of the distribution. Weights are rounded to 2^-40 here and to f32 there, so a draw may fall to a
// neighbour's side within 1e-5 of a token's border.
#include "device_runner/device_sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "device/test_support.h"
#include "kernels/logits.h"
#include "kernels/testing.h"

namespace pagoda::device_runner {
namespace {

constexpr std::int32_t kVocabulary = 700;

struct Case {
  SamplingParams params;
  std::vector<TokenId> prompt, output;
  std::vector<MaskWord> mask;
  std::vector<float> logits;
};

Case case_of(std::uint64_t seed) {
  auto draw = [&, i = std::uint64_t{0}](std::uint64_t n) mutable { return random_bits(seed, 3, i++) % n; };
  const auto token = [&] {
    return static_cast<TokenId>(draw(kVocabulary + 5)) - 2;
  };  // some are out of range
  Case c;
  c.logits = random_floats(seed, kVocabulary, seed % 3 == 0 ? 0.3f : 4.0f);
  if (draw(3) == 0)  // ties
    for (float& logit : c.logits) logit = std::round(logit * 2) / 2;
  if (draw(8) == 0) c.logits[draw(kVocabulary)] = std::numeric_limits<float>::quiet_NaN();
  SamplingParams& p = c.params;
  constexpr float kTemperatures[] = {0, 0.001f, 0.3f, 1, 1.7f};
  p.temperature = kTemperatures[draw(5)];
  constexpr std::int32_t kTopK[] = {0, -1, 1, 7, 50, 5000};
  p.top_k = kTopK[draw(6)];
  constexpr float kTopP[] = {1, 0.95f, 0.5f, 0.01f};
  p.top_p = kTopP[draw(4)];
  constexpr float kMinP[] = {0, 0, 0.05f, 0.9f};
  p.min_p = kMinP[draw(4)];
  for (std::uint64_t i = draw(30); i > 0; --i) c.prompt.push_back(token());
  for (std::uint64_t i = draw(30); i > 0; --i) c.output.push_back(token());
  if (draw(2) == 0) p.repetition_penalty = 1.3f;
  if (draw(2) == 0) p.frequency_penalty = 0.7f;
  if (draw(2) == 0) p.presence_penalty = -0.4f;
  if (draw(3) == 0)
    for (int i = 0; i < 5; ++i) p.logit_bias.emplace_back(token(), 2.5f);
  if (draw(4) == 0)
    for (int i = 0; i < 40; ++i) p.allowed_token_ids.push_back(token());
  if (draw(3) == 0) p.bad_words = {{token()}, {c.output.empty() ? 3 : c.output.back(), token()}, {1, 2, 3}};
  if (draw(3) == 0) {
    p.min_tokens = 100;
    p.stop_token_ids = {token(), token()};
    p.eos_token_ids = {5};
  }
  if (draw(3) == 0) {
    c.mask.assign(mask_words(kVocabulary), 0);
    for (std::uint64_t i = 1 + draw(60); i > 0; --i) allow(c.mask, static_cast<TokenId>(draw(kVocabulary)));
  }
  // Nothing that is allowed may be left.
  if (draw(10) == 0 && !c.mask.empty()) p.allowed_token_ids = {0};
  return c;
}

class Draws {
 public:
  // Every case a row, each with `candidates` draws.
  Draws(const std::vector<Case>& cases, std::uint32_t candidates) {
    DrawPlan plan(kVocabulary);
    std::vector<float> logits;
    SequenceResult unused;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const Case& c = cases[i];
      logits.insert(logits.end(), c.logits.begin(), c.logits.end());
      plan.add({.params = &c.params,
                .seed = 1000 + i,
                .first_stream = 5,
                .num_candidates = candidates,
                .position = 3,
                .prompt = c.prompt,
                .output = c.output,
                .mask = c.mask,
                .result = &unused});
    }
    device::KernelBench bench(cases.size());
    auto* const there = bench.put(logits, "logits");
    auto* const best = bench.make<std::int32_t>(cases.size(), "best");
    auto* const tokens = bench.make<std::int32_t>(static_cast<std::size_t>(plan.num_draws), "tokens");
    EXPECT_TRUE(bench.run()
                    .edit_logits({there, bench.put(plan.edit_rows), bench.put(plan.edits),
                                  bench.put(plan.masks), best, kVocabulary},
                                 std::ssize(plan.edit_rows))
                    .ok());
    EXPECT_TRUE(bench.run()
                    .sample_rows({there, bench.put(plan.draw_rows), best, tokens, kVocabulary},
                                 std::ssize(plan.draw_rows))
                    .ok());
    tokens_ = bench.get(tokens, static_cast<std::size_t>(plan.num_draws));
    edited_ = bench.get(there, logits.size());
  }
  std::span<const std::int32_t> tokens(std::size_t row, std::uint32_t candidates) const {
    return std::span(tokens_).subspan(row * candidates, candidates);
  }
  std::span<const float> edited(std::size_t row) const {
    return std::span(edited_).subspan(row * kVocabulary, kVocabulary);
  }

 private:
  std::vector<std::int32_t> tokens_;
  std::vector<float> edited_;
};

// The host's logits behind masks and edits.
std::vector<float> edited_by_host(const Case& c) {
  std::vector<float> logits = c.logits;
  for (std::size_t i = 0; i < logits.size() && !c.mask.empty(); ++i)
    if (!allows(c.mask, static_cast<TokenId>(i))) logits[i] = -std::numeric_limits<float>::infinity();
  LogitsProcessor processor;
  if (needs_processing(c.params, static_cast<std::int32_t>(c.output.size())))
    processor.process(c.params, c.prompt, c.output, logits);
  return logits;
}

TEST(DeviceSampling, DrawsWhatTheHostDraws) {
  constexpr std::uint32_t kCandidates = 40;
  std::vector<Case> cases;
  for (std::uint64_t seed = 0; seed < 150; ++seed) cases.push_back(case_of(seed));
  const Draws draws(cases, kCandidates);
  const KernelContext context = {.backend = Backend::reference};
  int random_rows = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    const Case& c = cases[i];
    const std::vector<float> wanted = edited_by_host(c);
    for (std::size_t t = 0; t < wanted.size(); ++t) {
      const float got = draws.edited(i)[t];
      if (std::isfinite(wanted[t]))
        ASSERT_NEAR(got, wanted[t], 1e-5f * std::max(1.0f, std::abs(wanted[t]))) << t;
      else
        ASSERT_TRUE(got == wanted[t] || (std::isnan(got) && std::isnan(wanted[t]))) << t;
    }
    const LogitMax best = max_logit(context, draws.edited(i));
    if (best.value == -std::numeric_limits<float>::infinity() || c.params.temperature < kGreedyTemperature) {
      std::vector<float> masked = c.logits;
      for (std::size_t t = 0; t < masked.size() && !c.mask.empty(); ++t)
        if (!allows(c.mask, static_cast<TokenId>(t))) masked[t] = -std::numeric_limits<float>::infinity();
      const bool nothing = best.value == -std::numeric_limits<float>::infinity();
      const std::int32_t token = nothing ? max_logit(context, masked).index : best.index;
      for (const std::int32_t got : draws.tokens(i, kCandidates)) ASSERT_EQ(got, token);
      continue;
    }
    ++random_rows;
    Distribution distribution;
    distribution.assign(CpuLevel::portable, draws.edited(i), c.params);
    const auto probabilities = distribution.probabilities();
    for (std::uint32_t k = 0; k < kCandidates; ++k) {
      const std::int32_t got = draws.tokens(i, kCandidates)[k];
      const double uniform = random_uniform(1000 + i, 5 + k, 3);
      double below = 0;
      bool found = false;
      for (const auto& [token, probability] : probabilities) {
        if (token == got) {
          found = true;
          EXPECT_LE(below - 1e-5, uniform) << "draw " << k << ", token " << got;
          EXPECT_GE(below + probability + 1e-5, uniform) << "draw " << k << ", token " << got;
        }
        below += probability;
      }
      EXPECT_TRUE(found) << "token " << got << " was cut";
    }
  }
  EXPECT_GT(random_rows, 50);
}

TEST(DeviceSampling, ARowsDrawsDependOnItAlone) {
  std::vector<Case> cases;
  for (std::uint64_t seed = 0; seed < 6; ++seed) cases.push_back(case_of(seed));
  const Draws together(cases, 5);
  // Rows draw by their number's seed: the first is the first again.
  const Draws alone({cases[0]}, 5);
  EXPECT_TRUE(std::ranges::equal(together.tokens(0, 5), alone.tokens(0, 5)));
}

}  // namespace
}  // namespace pagoda::device_runner
