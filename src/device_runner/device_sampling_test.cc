// Goal: the sampling kernels draw what the host's sampler draws, for random logits and parameters: the same
// logits behind the edits, the same tokens left by the cuts, and at (seed, stream, position) the token at
// that place of the distribution. Weights are rounded to 2^-40 here and to f32 there, so a draw may fall to a
// neighbour's side within 1e-5 of a token's border. Log-probabilities, ranks and beams are the host's, too.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "device/test_support.h"
#include "device_runner/device_sampler.h"
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

// A sampler on a device of its own, for rows of logits that tests bring.
class SamplerBench {
 public:
  SamplerBench(std::uint64_t seed, std::int32_t vocabulary, std::int32_t rows, std::int32_t seqs)
      : bench_(seed), vocabulary_(vocabulary), arena_(bench_.device(), bench_.stream()) {
    auto made = DeviceSampler::create(bench_.device(), bench_.stream(), arena_,
                                      {.vocab_size = vocabulary, .max_num_seqs = seqs, .max_rows = rows});
    CHECK(made.has_value());
    sampler_ = *std::move(made);
  }
  void put(const std::vector<float>& logits) {
    arena_.begin();
    const float* const there = arena_.put(logits);
    EXPECT_TRUE(bench_.device()
                    .copy(bench_.stream(), reinterpret_cast<std::byte*>(sampler_->logits()),
                          reinterpret_cast<const std::byte*>(there), logits.size() * sizeof(float))
                    .ok());
  }
  std::vector<float> logits(std::size_t rows) {
    return bench_.get(sampler_->logits(), rows * static_cast<std::size_t>(vocabulary_));
  }
  DeviceSampler& operator*() { return *sampler_; }
  DeviceSampler* operator->() { return sampler_.get(); }

 private:
  device::KernelBench bench_;
  std::int32_t vocabulary_;
  device::StepArena arena_;
  std::unique_ptr<DeviceSampler> sampler_;
};

SampleRow row_of(const Case& c, std::uint64_t seed, std::uint32_t candidates, SequenceResult& result) {
  return {.params = &c.params,
          .seed = seed,
          .first_stream = 5,
          .num_candidates = candidates,
          .position = 3,
          .prompt = c.prompt,
          .output = c.output,
          .mask = c.mask,
          .result = &result};
}

class Draws {
 public:
  // Every case a row, each with `candidates` draws.
  Draws(const std::vector<Case>& cases, std::uint32_t candidates) : results_(cases.size()) {
    const auto rows = static_cast<std::int32_t>(cases.size());
    SamplerBench bench(cases.size(), kVocabulary, rows, rows);
    std::vector<float> logits;
    std::vector<DrawnRow> drawn;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      logits.insert(logits.end(), cases[i].logits.begin(), cases[i].logits.end());
      drawn.push_back({.row = row_of(cases[i], 1000 + i, candidates, results_[i]),
                       .id = static_cast<SequenceId>(i),
                       .sequence = i});
    }
    bench.put(logits);
    const Status status = bench->draw(drawn);
    EXPECT_TRUE(status.ok()) << status.message();
    edited_ = bench.logits(cases.size());
  }
  std::vector<std::int32_t> tokens(std::size_t row) const {
    std::vector<std::int32_t> tokens;
    for (const Candidate& candidate : results_[row].candidates) tokens.push_back(candidate.token);
    return tokens;
  }
  const SequenceResult& result(std::size_t row) const { return results_[row]; }
  std::span<const float> edited(std::size_t row) const {
    return std::span(edited_).subspan(row * kVocabulary, kVocabulary);
  }

 private:
  std::vector<SequenceResult> results_;
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
      for (const std::int32_t got : draws.tokens(i)) ASSERT_EQ(got, token);
      continue;
    }
    ++random_rows;
    Distribution distribution;
    distribution.assign(CpuLevel::portable, draws.edited(i), c.params);
    const auto probabilities = distribution.probabilities();
    for (std::uint32_t k = 0; k < kCandidates; ++k) {
      const std::int32_t got = draws.tokens(i).at(k);
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
  EXPECT_EQ(together.tokens(0), alone.tokens(0));
}

// Ranks and the order of the best tokens are the host's, of all kinds of rows; log-probabilities but for
// rounding.
void expect_scores(const SequenceResult& got, const SequenceResult& wanted) {
  ASSERT_EQ(got.top.size(), wanted.top.size());
  for (std::size_t t = 0; t < wanted.top.size(); ++t) {
    EXPECT_EQ(got.top[t].token, wanted.top[t].token) << t;
    EXPECT_EQ(got.top[t].rank, wanted.top[t].rank) << t;
    EXPECT_NEAR(got.top[t].logprob, wanted.top[t].logprob, 1e-4) << t;
  }
  ASSERT_EQ(got.candidates.size(), wanted.candidates.size());
  for (std::size_t c = 0; c < wanted.candidates.size(); ++c) {
    if (got.candidates[c].token != wanted.candidates[c].token) continue;  // at a border: see above
    EXPECT_EQ(got.candidates[c].rank, wanted.candidates[c].rank) << c;
    EXPECT_NEAR(got.candidates[c].logprob, wanted.candidates[c].logprob, 1e-4) << c;
  }
}

TEST(DeviceSampling, ScoresAreTheHosts) {
  Sampler host(KernelContext{.backend = Backend::reference});
  std::vector<Case> cases;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Case c = case_of(seed);
    for (float& logit : c.logits)  // ranks of NaN are anybody's
      if (std::isnan(logit)) logit = 1;
    constexpr std::int32_t kTop[] = {0, 1, 5, 20, 64, 65, 700};  // the last two are the host's
    c.params.logprobs = kTop[seed % 7];
    if (seed % 5 == 0) c.params.best_of = 2;
    c.params.processed_logprobs = seed % 4 == 0;  // the host's
    cases.push_back(std::move(c));
  }
  const Draws draws(cases, 3);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    SequenceResult wanted;
    SampleRow row = row_of(cases[i], 1000 + i, 3, wanted);
    row.logits = cases[i].logits;
    host.sample({&row, 1});
    expect_scores(draws.result(i), wanted);
  }
}

TEST(DeviceSampling, BeamsAndPromptsAreTheHosts) {
  Sampler host(KernelContext{.backend = Backend::reference});
  std::vector<float> logits = random_floats(4, 3 * kVocabulary, 4);
  for (std::size_t i = 0; i < kVocabulary; ++i) logits[i] = std::round(logits[i]);  // ties
  SamplerBench bench(1, kVocabulary, 3, 3);
  Case c;
  c.mask.assign(mask_words(kVocabulary), 0);
  for (const TokenId token : {3, 50, 699}) allow(c.mask, token);
  std::vector<SequenceResult> got(3), wanted(3);
  std::vector<DrawnRow> drawn;
  for (std::size_t i = 0; i < 3; ++i) {
    DrawnRow row = {.row = row_of(c, 1, i == 1 ? 65 : 8, got[i]), .sequence = i};
    row.row.beam = true;
    if (i != 2) row.row.mask = {};
    drawn.push_back(row);
  }
  bench.put(logits);
  ASSERT_TRUE(bench->draw(drawn).ok());
  for (std::size_t i = 0; i < 3; ++i) {
    SampleRow row = drawn[i].row;
    row.logits = std::span(logits).subspan(i * kVocabulary, kVocabulary);
    row.result = &wanted[i];
    host.sample({&row, 1});
    SCOPED_TRACE(i);
    ASSERT_EQ(got[i].candidates.size(), i == 2 ? 3u : i == 1 ? 65u : 8u);
    for (std::size_t k = 0; k < wanted[i].candidates.size(); ++k)
      EXPECT_EQ(got[i].candidates[k].token, wanted[i].candidates[k].token) << k;
    expect_scores(got[i], wanted[i]);
  }
  bench.put(logits);
  std::vector<TokenLogprobs> scored(3), expected(3);
  std::vector<PromptRow> rows;
  for (std::size_t i = 0; i < 3; ++i)
    rows.push_back({.logits = std::span(logits).subspan(i * kVocabulary, kVocabulary),
                    .token = static_cast<TokenId>(7 * i),
                    .num_top = i == 0   ? 4
                               : i == 1 ? 0
                                        : -1,
                    .result = &scored[i]});
  ASSERT_TRUE(bench->score(rows).ok());
  for (std::size_t i = 0; i < 3; ++i) rows[i].result = &expected[i];
  host.score_prompt(rows);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(scored[i].chosen.rank, expected[i].chosen.rank);
    EXPECT_NEAR(scored[i].chosen.logprob, expected[i].chosen.logprob, 1e-4);
    ASSERT_EQ(scored[i].top.size(), expected[i].top.size());
    for (std::size_t t = 0; t < expected[i].top.size(); ++t)
      EXPECT_EQ(scored[i].top[t].token, expected[i].top[t].token);
  }
}

// A vocabulary that has more threads, and distributions that need the whole row: flat, tied, a large top_k.
TEST(DeviceSampling, LargeVocabularies) {
  constexpr std::int32_t kLarge = 9000;
  const KernelContext context = {.backend = Backend::reference};
  SamplerBench bench(3, kLarge, 1, 1);
  struct {
    const char* name;
    float spread, top_p;
    std::int32_t top_k;
    float step = 0;
  } shapes[] = {{"peaked", 8, 0.9f, 0}, {"flat", 0.01f, 0.9f, 0},    {"top-k", 3, 1, 50},
                {"both", 3, 0.8f, 50},  {"many", 1, 0.9f, 4000},     {"tied", 1, 0.9f, 3000, 2},
                {"no cut", 2, 1, 0},    {"all the same", 0, 0.5f, 0}};
  for (const auto& shape : shapes) {
    SCOPED_TRACE(shape.name);
    std::vector<float> logits = random_floats(11, kLarge, shape.spread);
    if (shape.step > 0)
      for (float& logit : logits) logit = std::round(logit * shape.step) / shape.step;
    Case c;
    c.params.top_p = shape.top_p;
    c.params.top_k = shape.top_k;
    c.params.logprobs = 20;
    SequenceResult got, wanted;
    const std::vector<DrawnRow> drawn = {{.row = row_of(c, 9, 30, got)}};
    bench.put(logits);
    const Status status = bench->draw(drawn);
    ASSERT_TRUE(status.ok()) << status.message();
    SampleRow row = drawn[0].row;
    row.logits = logits;
    row.result = &wanted;
    Sampler(context).sample({&row, 1});
    Distribution distribution;
    distribution.assign(CpuLevel::portable, logits, c.params);
    double below = 0;
    std::vector<std::pair<double, double>> place(kLarge, {2, 2});
    for (const auto& [token, probability] : distribution.probabilities()) {
      place[static_cast<std::size_t>(token)] = {below, below + probability};
      below += probability;
    }
    for (std::uint32_t k = 0; k < 30; ++k) {
      const double uniform = random_uniform(9, 5 + k, 3);
      const auto [from, to] = place[static_cast<std::size_t>(got.candidates[k].token)];
      EXPECT_LE(from - 1e-4, uniform) << k;
      EXPECT_GE(to + 1e-4, uniform) << k;
    }
    expect_scores(got, wanted);
  }
}

// Penalties over steps: counts are kept, drafts come and go, and lines are taken from who was not there.
TEST(DeviceSampling, PenaltiesFollowSequencesOverSteps) {
  Sampler host(KernelContext{.backend = Backend::reference});
  SamplerBench bench(5, kVocabulary, 4, 2);
  SamplingParams params;
  params.temperature = 0;
  params.repetition_penalty = 1.4f;
  params.frequency_penalty = 0.6f;
  params.presence_penalty = 0.3f;
  params.logprobs = 3;
  std::vector<std::vector<TokenId>> prompts(3), outputs(3);
  for (std::size_t s = 0; s < 3; ++s)
    for (std::uint64_t i = 0; i < 20; ++i)
      prompts[s].push_back(static_cast<TokenId>(random_bits(s, 8, i) % 40));
  for (std::uint64_t step = 0; step < 12; ++step) {
    const std::vector<float> logits = random_floats(100 + step, 4 * kVocabulary, 1);
    // Two of the three, by turns; the first with two drafts, of which the next step knows one, or none.
    const std::size_t first = step % 3, second = (step + 1 + step % 2) % 3;
    std::vector<std::vector<TokenId>> known;
    std::vector<SequenceResult> got(4), wanted(4);
    std::vector<DrawnRow> rows;
    for (std::size_t i = 0; i < 4; ++i) {
      const std::size_t s = i < 3 ? first : second;
      known.push_back(outputs[s]);
      if (i == 1 || i == 2) known.back().push_back(static_cast<TokenId>(step % 7));
      if (i == 2) known.back().push_back(static_cast<TokenId>(step % 7));
    }
    for (std::size_t i = 0; i < 4; ++i)
      rows.push_back({.row = {.params = &params,
                              .position = 1,
                              .prompt = prompts[i < 3 ? first : second],
                              .output = known[i],
                              .result = &got[i]},
                      .id = static_cast<SequenceId>(step == 7 ? 1
                                                    : i < 3   ? first
                                                              : second),
                      .sequence = i < 3 ? 0u : 1u,
                      .draft = i < 3 ? static_cast<std::int32_t>(i) : 0});
    bench.put(logits);
    const Status status = bench->draw(rows);
    ASSERT_TRUE(status.ok()) << status.message();
    for (std::size_t i = 0; i < 4; ++i) {
      SampleRow row = rows[i].row;
      row.logits = std::span(logits).subspan(i * kVocabulary, kVocabulary);
      row.result = &wanted[i];
      host.sample({&row, 1});
      SCOPED_TRACE(::testing::Message() << "step " << step << ", row " << i);
      EXPECT_EQ(got[i].candidates[0].token, wanted[i].candidates[0].token);
      expect_scores(got[i], wanted[i]);
    }
    outputs[first].push_back(static_cast<TokenId>(step % 2 == 0 ? step % 7 : 30 + step));
    outputs[second].push_back(got[3].candidates[0].token);
  }
}

}  // namespace
}  // namespace pagoda::device_runner
