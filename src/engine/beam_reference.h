#pragma once
// For tests: beam search and diverse beam search on the fake model, straight from the definition, with
// complete token lists and no sharing. With EarlyStopping::never it searches to the end: stopping early must
// not change the answer.
#include <cmath>
#include <functional>

#include "engine/engine_test_support.h"

namespace pagoda::fake {

struct Beam {
  std::vector<TokenId> tokens;  // generated
  double cumulative = 0, handicap = 0, score = 0;
  FinishReason reason = FinishReason::length;
};

inline double beam_score(const SamplingParams& sampling, double cumulative, std::size_t length) {
  return cumulative / std::pow(static_cast<double>(length), static_cast<double>(sampling.length_penalty));
}

// Runs one step of one beam group; returns its new live beams and adds finished ones to `done`.
inline std::vector<Beam> beam_step(const Request& request, const std::vector<Beam>& live,
                                   std::map<TokenId, int>& times_chosen, std::vector<Beam>& done) {
  const SamplingParams& sampling = request.sampling;
  const auto is_in = [](const std::vector<TokenId>& list, TokenId token) {
    return std::ranges::find(list, token) != list.end();
  };
  std::vector<Beam> open;
  for (const Beam& beam : live) {
    std::vector<TokenId> all = request.prompt_token_ids;
    all.insert(all.end(), beam.tokens.begin(), beam.tokens.end());
    const auto count = static_cast<std::uint32_t>(2 * sampling.width());
    const Allowed allowed = allowed_after(request, beam.tokens, kVocabulary);
    if (allowed.dead_end) continue;
    for (const Candidate& candidate :
         most_likely(attended_after(all, adapter_of(request)), count, allowed.mask)) {
      Beam next = beam;
      next.tokens.push_back(candidate.token);
      next.cumulative += static_cast<double>(candidate.logprob);
      const bool eos = is_in(sampling.eos_token_ids, candidate.token);
      const bool stops = (eos && !sampling.ignore_eos) || is_in(sampling.stop_token_ids, candidate.token);
      next.score = beam_score(sampling, next.cumulative, all.size() + (stops || eos ? 0 : 1));
      if (stops || allowed_after(request, next.tokens, kVocabulary).terminated) {
        next.reason = FinishReason::stop;
        done.push_back(next);
      } else {
        next.handicap -= static_cast<double>(sampling.diversity_penalty) * times_chosen[candidate.token];
        open.push_back(next);
      }
    }
  }
  std::ranges::sort(open, [](const Beam& a, const Beam& b) {
    return a.cumulative + a.handicap > b.cumulative + b.handicap;
  });
  open.resize(std::min(open.size(), static_cast<std::size_t>(sampling.width() / sampling.num_beam_groups)));
  for (const Beam& beam : open) ++times_chosen[beam.tokens.back()];
  return open;
}

inline bool may_stop(const SamplingParams& sampling, std::vector<Beam> done, const std::vector<Beam>& live,
                     std::size_t length) {
  const auto share = static_cast<std::size_t>(sampling.width() / sampling.num_beam_groups);
  if (done.size() < share) return false;
  if (sampling.early_stopping == EarlyStopping::first) return true;
  std::ranges::sort(done, std::greater(), &Beam::score);
  return std::ranges::none_of(live, [&](const Beam& beam) {
    return beam_score(sampling, beam.cumulative, length) > done[share - 1].score;
  });
}

inline std::vector<Beam> beam_reference(const Request& request, std::int32_t max_model_len) {
  const SamplingParams& sampling = request.sampling;
  const auto groups = static_cast<std::size_t>(sampling.num_beam_groups);
  std::vector<std::vector<Beam>> live(groups, std::vector<Beam>(1)), done(groups);
  const std::size_t prompt = request.prompt_token_ids.size();
  const std::size_t longest = std::min(prompt + static_cast<std::size_t>(sampling.max_tokens),
                                       static_cast<std::size_t>(max_model_len));
  bool stopped = false;
  for (std::size_t length = prompt + 1; length <= longest && !stopped; ++length) {
    std::map<TokenId, int> times_chosen;
    for (std::size_t g = 0; g < groups; ++g) live[g] = beam_step(request, live[g], times_chosen, done[g]);
    stopped = length < longest && sampling.early_stopping != EarlyStopping::never;
    for (std::size_t g = 0; g < groups && stopped; ++g)
      stopped = may_stop(sampling, done[g], live[g], length);
  }
  std::vector<Beam> answer;
  for (std::size_t g = 0; g < groups; ++g) {
    if (!stopped) done[g].insert(done[g].end(), live[g].begin(), live[g].end());
    std::ranges::sort(done[g], std::greater(), &Beam::score);
    done[g].resize(std::min(done[g].size(), static_cast<std::size_t>(sampling.width()) / groups));
    answer.insert(answer.end(), done[g].begin(), done[g].end());
  }
  std::ranges::sort(answer, std::greater(), &Beam::score);
  answer.resize(std::min(answer.size(), static_cast<std::size_t>(sampling.n)));
  return answer;
}

inline void expect_as_beam_reference(const Request& request, const Collector& got,
                                     std::int32_t max_model_len) {
  const std::vector<Beam> wanted = beam_reference(request, max_model_len);
  if (request.constraint == nullptr) ASSERT_EQ(wanted.size(), static_cast<std::size_t>(request.sampling.n));
  ASSERT_EQ(got.choices.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const Collector::Choice& choice = got.choices.at(static_cast<std::int32_t>(i));
    ASSERT_EQ(choice.tokens, wanted[i].tokens) << "answer " << i;
    ASSERT_EQ(choice.cumulative_logprob, wanted[i].cumulative);
    ASSERT_EQ(choice.reason, wanted[i].reason);
    if (!request.sampling.logprobs) continue;
    ASSERT_EQ(choice.logprobs.size(), choice.tokens.size());
    double sum = 0;
    for (const float logprob : choice.logprobs) sum += static_cast<double>(logprob);
    ASSERT_EQ(sum, choice.cumulative_logprob);
  }
}

// Checks the answer of any request, sampled or beam-searched.
inline void expect_as_reference(const Request& request, const Collector& got, std::int32_t max_model_len) {
  const SamplingParams& sampling = request.sampling;
  if (sampling.use_beam_search) return expect_as_beam_reference(request, got, max_model_len);
  const std::int32_t best_of = std::max(sampling.n, sampling.best_of);
  std::vector<Reference> wanted;
  for (std::int32_t i = 0; i < best_of; ++i) wanted.push_back(reference(request, i, max_model_len));
  if (best_of > sampling.n) {
    std::ranges::sort(
        wanted, [](const auto& a, const auto& b) { return a.cumulative_logprob > b.cumulative_logprob; });
  }
  ASSERT_EQ(got.choices.size(), static_cast<std::size_t>(sampling.n));
  for (std::int32_t i = 0; i < sampling.n; ++i) {
    const Collector::Choice& choice = got.choices.at(i);
    const Reference& reference = wanted[static_cast<std::size_t>(i)];
    if (choice.reason == FinishReason::abort) {  // the part before the abort must match
      ASSERT_LE(choice.tokens.size(), reference.tokens.size());
      ASSERT_TRUE(std::equal(choice.tokens.begin(), choice.tokens.end(), reference.tokens.begin()));
      continue;
    }
    ASSERT_EQ(choice.tokens, reference.tokens) << "choice " << i;
    ASSERT_EQ(choice.reason, reference.reason);
    ASSERT_EQ(choice.cumulative_logprob, reference.cumulative_logprob);
    if (sampling.logprobs) ASSERT_EQ(choice.logprobs, reference.logprobs);
  }
  if (!sampling.prompt_logprobs) {
    ASSERT_TRUE(got.prompt_logprobs.empty());
    return;
  }
  const std::span<const TokenId> prompt = request.prompt_token_ids;
  ASSERT_EQ(got.prompt_logprobs.size(), prompt.size());
  ASSERT_FALSE(got.prompt_logprobs[0].has_value());
  for (std::size_t i = 1; i < prompt.size(); ++i) {
    ASSERT_EQ(got.prompt_logprobs[i]->chosen.token, prompt[i]);
    const std::uint64_t attended = attended_after(prompt.first(i), adapter_of(request));
    ASSERT_EQ(got.prompt_logprobs[i]->chosen.logprob, logprob_of(attended, prompt[i]));
  }
}

}  // namespace pagoda::fake
