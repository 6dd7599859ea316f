// Goal: the sampler's distributions equal vLLM's definitions, written here in the plainest way (double
// precision, full sorts), and its draws follow them; no result depends on the other rows of a batch.
#include "sampler/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include "base/random.h"
#include "kernels/logits.h"
#include "sampler/vector_math.h"

namespace pagoda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> random_logits(std::size_t count, std::mt19937_64& rng, double spread = 4) {
  std::vector<float> logits(count);
  for (float& logit : logits) {  // sum of uniforms: near enough to normal
    double sum = 0;
    for (int i = 0; i < 4; ++i) sum += static_cast<double>(rng() >> 11) * 0x1.0p-53 - 0.5;
    logit = static_cast<float>(sum * spread);
  }
  return logits;
}

std::vector<double> softmax(const std::vector<double>& x) {
  const double maximum = *std::max_element(x.begin(), x.end());
  std::vector<double> p(x.size());
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += p[i] = std::exp(x[i] - maximum);
  for (double& value : p) value /= sum;
  return p;
}

// vLLM's order, after the penalties.
std::vector<double> plain_distribution(const std::vector<float>& logits, const SamplingParams& params) {
  std::vector<double> x(logits.begin(), logits.end());
  for (double& value : x) value /= params.temperature;
  if (params.min_p > 0) {
    const std::vector<double> p = softmax(x);
    const double limit = params.min_p * *std::max_element(p.begin(), p.end());
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (p[i] < limit) x[i] = -kInfinity;
    }
  }
  if (params.top_k > 0 && params.top_k < static_cast<int>(x.size())) {
    std::vector<double> sorted = x;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    const double limit = sorted[static_cast<std::size_t>(params.top_k) - 1];
    for (double& value : x) {
      if (value < limit) value = -kInfinity;
    }
  }
  if (params.top_p < 1) {
    const std::vector<double> p = softmax(x);
    std::vector<std::size_t> order(x.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return p[a] != p[b] ? p[a] < p[b] : a > b; });
    double sum = 0;
    for (std::size_t i = 0; i + 1 < order.size(); ++i) {
      sum += p[order[i]];
      if (sum <= 1 - static_cast<double>(params.top_p)) x[order[i]] = -kInfinity;
    }
  }
  if (params.typical_p < 1) {
    const std::vector<double> p = softmax(x);
    double entropy = 0, sum = 0;
    for (const double each : p)
      if (each > 0) entropy -= each * std::log(each);
    std::vector<std::pair<double, std::size_t>> order;
    for (std::size_t i = 0; i < p.size(); ++i)
      if (p[i] > 0) order.emplace_back(std::abs(-std::log(p[i]) - entropy), i);
    std::sort(order.begin(), order.end());
    for (const auto& [distance, i] : order) {
      if (sum >= static_cast<double>(params.typical_p)) x[i] = -kInfinity;
      sum += p[i];
    }
  }
  return softmax(x);
}

TEST(Distribution, EqualsThePlainDefinition) {
  std::mt19937_64 rng(1);
  Distribution distribution;  // reused: nothing may leak from one row to the next
  for (int round = 0; round < 400; ++round) {
    SCOPED_TRACE(round);
    std::vector<float> logits = random_logits(1 + rng() % 3000, rng, 2.0 + static_cast<double>(rng() % 12));
    // As under a form's mask: only a few stretches are not masked, and not one of some blocks.
    if (rng() % 4 == 0) {
      const std::size_t kept = rng() % logits.size();
      for (std::size_t i = 0; i < logits.size(); ++i)
        if (i / 100 != kept / 100 && i != kept / 2) logits[i] = -kInfinity;
    }
    SamplingParams params;
    const float temperatures[] = {0.3f, 0.7f, 1.0f, 1.9f};
    params.temperature = temperatures[rng() % 4];
    if (rng() % 2) params.top_k = static_cast<std::int32_t>(1 + rng() % (rng() % 2 ? 20 : 2000));
    const float masses[] = {0.05f, 0.5f, 0.9f, 0.997f};
    if (rng() % 2) params.top_p = masses[rng() % 4];
    const float floors[] = {0.01f, 0.2f, 0.9f};
    if (rng() % 3 == 0) params.min_p = floors[rng() % 3];
    if (rng() % 3 == 0) params.typical_p = masses[rng() % 4];
    distribution.assign(detected_cpu_level(), logits, params);

    const std::vector<double> expected = plain_distribution(logits, params);
    std::vector<double> got(logits.size());
    double sum = 0;
    for (const auto& [token, p] : distribution.probabilities())
      sum += got[static_cast<std::size_t>(token)] = p;
    EXPECT_NEAR(sum, 1, 1e-6);
    // A token on the very edge of a cut may fall to either side by rounding; it must then be a small one.
    int differ = 0;
    for (std::size_t i = 0; i < got.size(); ++i) differ += (got[i] > 1e-30) != (expected[i] > 1e-30);
    ASSERT_LE(differ, 1);
    if (differ == 0) {
      for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-5) << i;
    }
  }
}

TEST(Distribution, EqualLogitsAtTheEdgeOfTopKAllSurvive) {
  const std::vector<float> logits = {1, 3, 2, 2, 2, 0};
  SamplingParams params;
  params.top_k = 2;
  Distribution distribution;
  distribution.assign(CpuLevel::portable, logits, params);
  EXPECT_EQ(distribution.probabilities().size(), 4u);
}

// The likeliest token says less than is usual; the third is nearest to the entropy.
TEST(Distribution, TypicalTokensAreThoseNearTheEntropy) {
  std::vector<float> logits;
  for (const float p : {0.5f, 0.2f, 0.15f, 0.1f, 0.05f}) logits.push_back(std::log(p));
  SamplingParams params;
  Distribution distribution;
  const auto kept = [&](float mass) {
    params.typical_p = mass;
    distribution.assign(CpuLevel::portable, logits, params);
    std::vector<TokenId> tokens;
    for (const auto& [token, p] : distribution.probabilities()) tokens.push_back(token);
    return tokens;
  };
  EXPECT_EQ(kept(0.0f), std::vector<TokenId>{1});
  EXPECT_EQ(kept(0.19f), std::vector<TokenId>{1});
  EXPECT_EQ(kept(0.3f), (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(kept(0.5f), (std::vector<TokenId>{0, 1, 2}));
  EXPECT_EQ(kept(1.0f).size(), 5u);
  logits.assign(5, 0.0f);
  EXPECT_EQ(kept(0.1f).size(), 5u) << "all are at one distance";
}

TEST(Distribution, DrawsFollowTheProbabilities) {
  std::mt19937_64 rng(3);
  const std::vector<float> logits = random_logits(2500, rng, 7);
  for (const float top_p : {1.0f, 0.9f}) {
    SamplingParams params;
    params.top_p = top_p;
    Distribution distribution;
    distribution.assign(detected_cpu_level(), logits, params);
    std::map<TokenId, double> expected;
    for (const auto& [token, p] : distribution.probabilities()) expected[token] = p;
    constexpr int kDraws = 60'000;
    std::map<TokenId, int> seen;
    for (int i = 0; i < kDraws; ++i) {
      const TokenId token = distribution.draw(random_uniform(7, 0, static_cast<std::uint64_t>(i)));
      ASSERT_TRUE(expected.contains(token));
      ++seen[token];
    }
    // Chi-square over cells of at least 20 expected draws, the rest in one cell; 6 sigma above the mean.
    double chi = 0, rest_expected = 0, rest_seen = 0;
    int cells = 0;
    for (const auto& [token, p] : expected) {
      const double want = p * kDraws;
      if (want < 20) {
        rest_expected += want;
        rest_seen += seen[token];
        continue;
      }
      chi += (seen[token] - want) * (seen[token] - want) / want;
      ++cells;
    }
    if (rest_expected > 0)
      chi += (rest_seen - rest_expected) * (rest_seen - rest_expected) / rest_expected, ++cells;
    EXPECT_GT(cells, 20);
    EXPECT_LT(chi, cells + 6 * std::sqrt(2.0 * cells));
  }
}

TEST(Distribution, TheEndsOfTheUnitIntervalGiveTokensWithWeight) {
  const std::vector<float> logits = {-kInfinity, 0, -kInfinity, 1, -kInfinity};
  SamplingParams params;
  Distribution distribution;
  distribution.assign(CpuLevel::portable, logits, params);
  EXPECT_EQ(distribution.draw(0.0), 1);
  EXPECT_EQ(distribution.draw(1.0), 3);
  std::vector<float> wide(5000, -kInfinity);
  wide[1500] = 0;
  distribution.assign(CpuLevel::portable, wide, params);
  EXPECT_EQ(distribution.draw(0.0), 1500);
  EXPECT_EQ(distribution.draw(1.0), 1500);
}

TEST(VectorMath, LevelsAgreeToTheBitAndWithTheLibrary) {
  std::mt19937_64 rng(5);
  for (const std::int64_t count : {1, 15, 16, 17, 1024, 1025, 5000}) {
    std::vector<float> x = random_logits(static_cast<std::size_t>(count), rng, 300);
    const float shift = *std::max_element(x.begin(), x.end());
    std::vector<float> first, first_sums;
    for (int level = 0; level <= static_cast<int>(detected_cpu_level()); ++level) {
      std::vector<float> weights(x.size()), sums(static_cast<std::size_t>(num_sum_blocks(count)));
      exponentials(static_cast<CpuLevel>(level), x.data(), count, shift, 0.5f, weights.data(), sums.data());
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double exact = std::exp((static_cast<double>(x[i]) - shift) * 0.5);
        ASSERT_NEAR(weights[i], exact, exact * 2e-5 + 1e-37);
      }
      if (level == 0) first = weights, first_sums = sums;
      EXPECT_EQ(weights, first);
      EXPECT_EQ(sums, first_sums);
    }
  }
}

TEST(VectorMath, AMaskedCopyTakesTheBitsThatAreSet) {
  std::mt19937_64 rng(31);
  for (std::size_t count = 1; count < 140; ++count) {
    const std::vector<float> from = random_logits(count, rng);
    std::vector<std::uint32_t> words(5);
    for (std::uint32_t& word : words)
      word = static_cast<std::uint32_t>(count % 3 == 0 ? rng() & rng() & rng() : rng());
    for (int level = 0; level <= static_cast<int>(detected_cpu_level()); ++level) {
      std::vector<float> to(count + 1, 7);
      masked_copy(static_cast<CpuLevel>(level), from.data(), words.data(), static_cast<std::int64_t>(count),
                  to.data());
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_EQ(to[i], (words[i / 32] >> (i % 32) & 1u) != 0 ? from[i] : -kInfinity)
            << i << " of " << count;
      ASSERT_EQ(to[count], 7);
    }
  }
}

TEST(LogitsProcessor, AppliesEachParameterAsVllmDoes) {
  LogitsProcessor processor;
  const std::vector<TokenId> prompt = {1, 2, 2}, output = {3, 4, 4};
  const auto run = [&](const SamplingParams& params, std::span<const TokenId> generated) {
    std::vector<float> logits = {1, 2, -2, 3, 4, -5};
    EXPECT_TRUE(needs_processing(params, static_cast<std::int32_t>(generated.size())));
    processor.process(params, prompt, generated, logits);
    return logits;
  };
  SamplingParams params;
  EXPECT_FALSE(needs_processing(params, 0));
  params.repetition_penalty = 2;
  EXPECT_EQ(run(params, output), (std::vector<float>{1, 1, -4, 1.5f, 2, -5}));
  params.frequency_penalty = 0.5f;
  params.presence_penalty = 0.25f;
  EXPECT_EQ(run(params, output), (std::vector<float>{1, 1, -4, 0.75f, 0.75f, -5}));
  EXPECT_EQ(run(params, {}), (std::vector<float>{1, 1, -4, 3, 4, -5}));  // and no mark was left behind

  params = {};
  params.allowed_token_ids = {2, 5, 99};
  params.logit_bias = {{5, 10.0f}, {1, 10.0f}, {-1, 1.0f}};
  EXPECT_EQ(run(params, output), (std::vector<float>{-kInfinity, -kInfinity, -2, -kInfinity, -kInfinity, 5}));

  params = {};
  params.bad_words = {{0}, {4, 1}, {3, 1, 5}, {3, 4, 4, 2}, {4, 4, 4, 4, 3}};
  EXPECT_EQ(run(params, output), (std::vector<float>{-kInfinity, -kInfinity, -kInfinity, 3, 4, -5}));

  params = {};
  params.min_tokens = 4;
  params.eos_token_ids = {0};
  params.stop_token_ids = {3};
  EXPECT_EQ(run(params, output), (std::vector<float>{-kInfinity, 2, -2, -kInfinity, 4, -5}));
  EXPECT_FALSE(needs_processing(params, 4));
}

TEST(Sampler, GreedyTakesTheFirstMaximumAndReportsRawLogprobs) {
  const std::vector<float> logits = {0, 5, 5, 1};
  SamplingParams params;
  params.temperature = 0;
  params.logit_bias = {{3, 100.0f}};
  params.logprobs = 3;
  SequenceResult result;
  Sampler sampler(KernelContext{});
  const SampleRow row{.logits = logits, .params = &params, .result = &result};
  sampler.sample(std::span(&row, 1));
  ASSERT_EQ(result.candidates.size(), 1u);
  EXPECT_EQ(result.candidates[0].token, 3);
  EXPECT_EQ(result.candidates[0].rank, 3);
  const double normalizer = std::log(std::exp(0.0) + 2 * std::exp(5.0) + std::exp(1.0));
  EXPECT_NEAR(result.candidates[0].logprob, 1 - normalizer, 1e-5);
  ASSERT_EQ(result.top.size(), 3u);
  EXPECT_EQ(result.top[0].token, 1);
  EXPECT_EQ(result.top[0].rank, 1);
  EXPECT_EQ(result.top[1].token, 2);
  EXPECT_EQ(result.top[1].rank, 1);  // ties share the better rank
  EXPECT_EQ(result.top[2].rank, 3);

  params = {};
  params.temperature = 0;
  sampler.sample(std::span(&row, 1));
  EXPECT_EQ(result.candidates[0].token, 1);
}

// Processed log-probabilities are of what the draws are made from: what is cut off has none.
TEST(Sampler, ProcessedLogprobsAreThoseOfTheDraws) {
  std::mt19937_64 rng(23);
  Sampler sampler(KernelContext{});
  for (int round = 0; round < 100; ++round) {
    SCOPED_TRACE(round);
    const std::vector<float> logits = random_logits(50 + rng() % 500, rng);
    std::vector<float> biased = logits;
    SamplingParams params;
    params.temperature = round % 3 == 0 ? 0.5f : 1.5f;
    if (round % 2) params.top_k = 1 + static_cast<std::int32_t>(rng() % 12);
    if (round % 5 == 0) params.top_p = 0.6f;
    if (round % 7 == 0) {
      params.logit_bias = {{3, 5.0f}};
      biased[3] += 5;
    }
    params.logprobs = 8;
    params.processed_logprobs = true;
    SequenceResult result;
    const SampleRow row{
        .logits = logits, .params = &params, .seed = rng(), .num_candidates = 3, .result = &result};
    sampler.sample(std::span(&row, 1));
    const std::vector<double> p = plain_distribution(biased, params);
    const auto left = std::ranges::count_if(p, [](double each) { return each > 1e-30; });
    EXPECT_NEAR(static_cast<double>(result.top.size()),
                static_cast<double>(std::min<std::ptrdiff_t>(left, 8)), 1);
    double before = 1;
    for (const TokenLogprob& top : result.top) {
      EXPECT_NEAR(std::exp(top.logprob), p[static_cast<std::size_t>(top.token)], 1e-4);
      EXPECT_LE(std::exp(top.logprob), before + 1e-6);
      before = std::exp(top.logprob);
    }
    ASSERT_EQ(result.candidates.size(), 3u);
    for (const Candidate& candidate : result.candidates) {
      EXPECT_NEAR(std::exp(candidate.logprob), p[static_cast<std::size_t>(candidate.token)], 1e-4);
      for (const TokenLogprob& top : result.top)
        if (top.token == candidate.token) EXPECT_EQ(top.rank, candidate.rank);
    }
    params.temperature = 0;  // nothing else may be said
    sampler.sample(std::span(&row, 1));
    ASSERT_EQ(result.top.size(), 1u);
    EXPECT_EQ(result.top[0].token, result.candidates[0].token);
    EXPECT_EQ(result.top[0].logprob, 0);
    EXPECT_EQ(result.candidates[0].logprob, 0);
  }
}

TEST(Sampler, OnlyPlainGreedyRowsTakeTheLargestLogit) {
  SequenceResult result;
  const std::vector<TokenId> output = {1};
  SamplingParams params;
  params.temperature = 0;
  const auto takes = [&](SamplingParams changed, bool beam = false) {
    return Sampler::takes_largest({.params = &changed, .beam = beam, .output = output, .result = &result});
  };
  EXPECT_TRUE(takes(params));
  EXPECT_FALSE(takes(params, true));
  using Change = void (*)(SamplingParams&);
  for (const Change change :
       {Change{[](SamplingParams& p) { p.temperature = 1; }},
        Change{[](SamplingParams& p) { p.logprobs = 0; }}, Change{[](SamplingParams& p) { p.best_of = 2; }},
        Change{[](SamplingParams& p) { p.logit_bias = {{3, 1.0f}}; }},
        Change{[](SamplingParams& p) { p.presence_penalty = 1; }},
        Change{[](SamplingParams& p) { p.bad_words = {{1}}; }},
        Change{[](SamplingParams& p) { p.allowed_token_ids = {1}; }}}) {
    SamplingParams changed = params;
    change(changed);
    EXPECT_FALSE(takes(changed));
  }
  params.min_tokens = 2;
  params.stop_token_ids = {0};
  EXPECT_FALSE(takes(params));
  params.min_tokens = 1;
  EXPECT_TRUE(takes(params));

  Sampler::take({.params = &params, .num_candidates = 2, .result = &result}, 9);
  ASSERT_EQ(result.candidates.size(), 2u);
  EXPECT_EQ(result.candidates[0].token, 9);
  EXPECT_EQ(result.candidates[1].token, 9);
}

TEST(Sampler, EverythingMaskedFallsBackToTheRawMaximum) {
  const std::vector<float> logits = {0, 2, 1};
  SamplingParams params;
  params.allowed_token_ids = {1};
  params.bad_words = {{1}};
  SequenceResult result;
  Sampler sampler(KernelContext{});
  const SampleRow row{.logits = logits, .params = &params, .result = &result};
  sampler.sample(std::span(&row, 1));
  EXPECT_EQ(result.candidates[0].token, 1);
}

TEST(Sampler, BeamGivesTheMostLikelyTokens) {
  std::mt19937_64 rng(9);
  const std::vector<float> logits = random_logits(700, rng);
  SamplingParams params;
  SequenceResult result;
  Sampler sampler(KernelContext{});
  const SampleRow row{
      .logits = logits, .params = &params, .num_candidates = 8, .beam = true, .result = &result};
  sampler.sample(std::span(&row, 1));
  ASSERT_EQ(result.candidates.size(), 8u);
  const std::vector<double> p = plain_distribution(logits, SamplingParams{});
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_NEAR(result.candidates[i].logprob,
                std::log(p[static_cast<std::size_t>(result.candidates[i].token)]), 1e-4);
    EXPECT_EQ(result.candidates[i].rank, static_cast<std::int32_t>(i) + 1);
  }
}

TEST(Sampler, ARowDoesNotDependOnItsCompanyOrTheThreads) {
  std::mt19937_64 rng(11);
  constexpr std::size_t kRows = 40;
  std::vector<std::vector<float>> logits;
  std::vector<SamplingParams> params(kRows);
  const std::vector<TokenId> prompt = {3, 1, 4, 1, 5}, output = {9, 2, 6};
  for (std::size_t i = 0; i < kRows; ++i) {
    logits.push_back(random_logits(1500, rng, 10));
    params[i].temperature = static_cast<float>(rng() % 4) * 0.5f;
    if (rng() % 2) params[i].top_k = 50;
    if (rng() % 2) params[i].top_p = 0.9f;
    if (rng() % 2) params[i].repetition_penalty = 1.3f;
    if (rng() % 2) params[i].logprobs = 2;
  }
  const auto sample_rows = [&](std::size_t first, std::size_t count, Sampler& sampler) {
    std::vector<SequenceResult> results(count);
    std::vector<SampleRow> rows;
    for (std::size_t i = 0; i < count; ++i) {
      rows.push_back({.logits = logits[first + i],
                      .params = &params[first + i],
                      .seed = first + i,
                      .first_stream = 2,
                      .num_candidates = 3,
                      .position = 3,
                      .prompt = prompt,
                      .output = output,
                      .result = &results[i]});
    }
    sampler.sample(rows);
    return results;
  };
  ThreadPool pool(2);
  KernelContext threaded;
  threaded.pool = &pool;
  Sampler together(threaded), alone(KernelContext{});
  const std::vector<SequenceResult> all = sample_rows(0, kRows, together);
  for (std::size_t i = 0; i < kRows; ++i) {
    const SequenceResult one = sample_rows(i, 1, alone).front();
    ASSERT_EQ(one.candidates.size(), 3u);
    for (std::size_t c = 0; c < 3; ++c) {
      EXPECT_EQ(one.candidates[c].token, all[i].candidates[c].token);
      EXPECT_EQ(one.candidates[c].logprob, all[i].candidates[c].logprob);
    }
    EXPECT_EQ(one.top.size(), all[i].top.size());
  }
}

TEST(Sampler, CandidateStreamsAreThoseOfSingleDraws) {
  std::mt19937_64 rng(13);
  const std::vector<float> logits = random_logits(900, rng);
  SamplingParams params;
  Sampler sampler(KernelContext{});
  SequenceResult three, single;
  const SampleRow row{.logits = logits,
                      .params = &params,
                      .seed = 5,
                      .first_stream = 1,
                      .num_candidates = 3,
                      .position = 17,
                      .result = &three};
  sampler.sample(std::span(&row, 1));
  for (std::uint32_t i = 0; i < 3; ++i) {
    const SampleRow one{.logits = logits,
                        .params = &params,
                        .seed = 5,
                        .first_stream = 1 + i,
                        .position = 17,
                        .result = &single};
    sampler.sample(std::span(&one, 1));
    EXPECT_EQ(single.candidates[0].token, three.candidates[i].token);
  }
}

// A masked row is the row of a model that gives the forbidden tokens no chance at all.
TEST(Sampler, AMaskLeavesTheDistributionOfWhatItAllows) {
  std::mt19937_64 rng(21);
  constexpr std::size_t kVocab = 5 * kSumBlock + 901;
  Sampler sampler(KernelContext{});  // which keeps what the row before has masked
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    const std::vector<float> logits = random_logits(kVocab, rng);
    std::vector<float> masked(kVocab, -kInfinity);
    std::vector<MaskWord> mask(mask_words(kVocab), 0);
    const std::uint64_t one_in = 1 + rng() % (round % 2 == 0 ? 300 : 5000);
    std::size_t allowed = 0;
    for (TokenId token = 0; token < static_cast<TokenId>(kVocab); ++token) {
      if (rng() % one_in != 0 && token != 17) continue;
      allow(mask, token);
      masked[static_cast<std::size_t>(token)] = logits[static_cast<std::size_t>(token)];
      ++allowed;
    }
    mask.back() |= 1u << 31;  // behind the vocabulary
    SamplingParams params;
    params.temperature = round % 3 == 0 ? 0.0f : 0.8f;
    params.top_p = round % 2 == 0 ? 1.0f : 0.9f;
    params.top_k = round % 5 == 0 ? 7 : 0;
    if (round % 4 < 2) params.logprobs = 5;
    if (round % 7 == 0) params.repetition_penalty = 1.3f;
    const std::vector<TokenId> prompt = {3, 17};
    SequenceResult got, want;
    SampleRow row{.logits = logits,
                  .params = &params,
                  .seed = 5,
                  .num_candidates = 4,
                  .beam = round % 6 == 5,
                  .position = round,
                  .prompt = prompt,
                  .mask = mask,
                  .result = &got};
    EXPECT_FALSE(Sampler::takes_largest(row));
    sampler.sample(std::span(&row, 1));
    row.logits = masked;
    row.mask = {};
    row.result = &want;
    sampler.sample(std::span(&row, 1));
    if (row.beam) want.candidates.resize(std::min<std::size_t>(4, allowed));
    want.top.resize(std::min(want.top.size(), allowed));
    ASSERT_EQ(got.candidates.size(), want.candidates.size());
    for (std::size_t i = 0; i < want.candidates.size(); ++i) {
      EXPECT_TRUE(allows(mask, got.candidates[i].token));
      EXPECT_EQ(got.candidates[i].token, want.candidates[i].token);
      EXPECT_EQ(got.candidates[i].logprob, want.candidates[i].logprob);
      EXPECT_EQ(got.candidates[i].rank, want.candidates[i].rank);
    }
    ASSERT_EQ(got.top.size(), want.top.size());
    for (std::size_t i = 0; i < want.top.size(); ++i) {
      EXPECT_EQ(got.top[i].token, want.top[i].token);
      EXPECT_EQ(got.top[i].logprob, want.top[i].logprob);
    }
  }
}

TEST(Sampler, ARowOfOneTokenIsSettledWithoutLogits) {
  for (const std::int32_t vocab : {1, 31, 32, 33, 1000}) {
    std::vector<MaskWord> mask(mask_words(vocab), 0);
    SamplingParams params;
    params.temperature = 1;
    SequenceResult result;
    SampleRow row{.params = &params, .num_candidates = 2, .mask = mask, .result = &result};
    EXPECT_FALSE(Sampler::settle(row, vocab)) << "nothing may come";
    allow(mask, vocab - 1);
    ASSERT_TRUE(Sampler::settle(row, vocab));
    ASSERT_EQ(result.candidates.size(), 2u);
    EXPECT_EQ(result.candidates[1].token, vocab - 1);
    if (vocab % 32 != 0) mask.back() |= 1u << 31;  // behind the vocabulary
    EXPECT_TRUE(Sampler::settle(row, vocab));
    params.logprobs = 0;
    EXPECT_FALSE(Sampler::settle(row, vocab)) << "its logits are asked for";
    params.logprobs.reset();
    row.beam = true;
    EXPECT_FALSE(Sampler::settle(row, vocab));
    row.beam = false;
    if (vocab == 1) continue;
    allow(mask, 0);
    EXPECT_FALSE(Sampler::settle(row, vocab)) << "one of two";
  }
}

TEST(Sampler, NoParameterLeadsOutOfAMask) {
  std::vector<float> logits(64, 1.0f);
  logits[40] = 9;
  logits[33] = 2;
  std::vector<MaskWord> mask(2, 0);
  allow(mask, 33);
  allow(mask, 34);
  SamplingParams params;
  params.temperature = 0;
  params.min_tokens = 5;
  params.stop_token_ids = {33, 34};  // forbidden so early, and nothing else is allowed
  SequenceResult result;
  const SampleRow row{.logits = logits, .params = &params, .mask = mask, .result = &result};
  Sampler sampler(KernelContext{});
  sampler.sample(std::span(&row, 1));
  ASSERT_EQ(result.candidates.size(), 1u);
  EXPECT_EQ(result.candidates[0].token, 33);
}

// Whatever a request or a broken model makes of a row, there is a token, and the best where there is one.
TEST(Sampler, ARowWithNothingToRankStillGivesAToken) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  struct Case {
    const char* what;
    std::vector<float> logits;
    float top_p, min_p = 0, repetition_penalty = 1;
    TokenId expected;
  };
  std::vector<float> infinite(100, 1.0f);
  infinite[7] = kInfinity;
  std::vector<float> plain(100, 1.0f);
  plain[7] = 3;
  const Case cases[] = {
      {.what = "no mass", .logits = plain, .top_p = 0, .expected = 7},
      {.what = "no mass of what min_p kept", .logits = plain, .top_p = 0, .min_p = 0.01f, .expected = 7},
      {.what = "infinite", .logits = infinite, .top_p = 0.9f, .expected = 7},
      {.what = "infinite, with min_p", .logits = infinite, .top_p = 0.9f, .min_p = 0.1f, .expected = 7},
      {.what = "NaN", .logits = std::vector<float>(100, kNan), .top_p = 0.9f, .expected = 0},
      {.what = "penalty", .logits = plain, .top_p = 0.9f, .repetition_penalty = 1e-40f, .expected = 7},
  };
  const std::vector<TokenId> prompt = {7};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    SamplingParams params;
    params.top_p = c.top_p;
    params.min_p = c.min_p;
    params.repetition_penalty = c.repetition_penalty;
    SequenceResult result;
    const SampleRow row{.logits = c.logits, .params = &params, .prompt = prompt, .result = &result};
    Sampler sampler(KernelContext{});  // a fresh one: an earlier row leaves something to read in its buffers
    sampler.sample(std::span(&row, 1));
    ASSERT_EQ(result.candidates.size(), 1u);
    EXPECT_EQ(result.candidates[0].token, c.expected);
  }
}

TEST(LogitsProcessor, APenaltyMakesNoFiniteLogitInfinite) {
  std::vector<float> logits = {2, -1e38f, -kInfinity, 1};
  SamplingParams params;
  const std::vector<TokenId> prompt = {0, 1, 2};
  LogitsProcessor processor;
  params.repetition_penalty = 1e-40f;
  processor.process(params, prompt, {}, logits);
  EXPECT_EQ(logits[0], std::numeric_limits<float>::max());
  EXPECT_EQ(logits[2], -kInfinity) << "what is masked stays so";
  params.repetition_penalty = 100;
  logits[1] = -1e38f;
  processor.process(params, prompt, {}, logits);
  EXPECT_EQ(logits[1], std::numeric_limits<float>::lowest());
  EXPECT_EQ(logits[3], 1);
}

TEST(Sampler, PromptRowsAreScored) {
  const std::vector<float> logits = {0, 1, 2};
  TokenLogprobs result;
  Sampler sampler(KernelContext{});
  const PromptRow row{.logits = logits, .token = 1, .num_top = -1, .result = &result};
  sampler.score_prompt(std::span(&row, 1));
  const double normalizer = std::log(1 + std::exp(1.0) + std::exp(2.0));
  EXPECT_NEAR(result.chosen.logprob, 1 - normalizer, 1e-6);
  EXPECT_EQ(result.chosen.rank, 2);
  ASSERT_EQ(result.top.size(), 3u);
  EXPECT_EQ(result.top[0].token, 2);
}

}  // namespace
}  // namespace pagoda
