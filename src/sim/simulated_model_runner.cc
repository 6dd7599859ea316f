#include "sim/simulated_model_runner.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/random.h"

namespace pagoda {
namespace {

TokenId token_at(std::uint64_t bits, std::int32_t vocab_size) {
  return static_cast<TokenId>(bits % static_cast<std::uint64_t>(vocab_size));
}

void draw_beam(const ScheduledSequence& sequence, std::int32_t vocab_size, SequenceResult& out) {
  const SampleSpec& spec = sequence.spec;
  const auto id = static_cast<std::uint64_t>(sequence.id);
  const auto position = static_cast<std::uint64_t>(sequence.all_tokens.size());
  const double first = 0.05 + 0.95 * random_uniform(spec.seed, id, position);
  const double ratio = std::log1p(-first);
  // Consecutive tokens from a random start: all different.
  const std::uint64_t start = random_bits(spec.seed, ~id, position) % static_cast<std::uint64_t>(vocab_size);
  for (std::uint32_t i = 0; i < spec.num_candidates; ++i) {
    Candidate candidate;
    candidate.token = token_at(start + i, vocab_size);
    candidate.logprob = static_cast<float>(std::log(first) + i * ratio);
    candidate.rank = static_cast<std::int32_t>(i) + 1;
    out.candidates.push_back(candidate);
  }
}

// `behind`: number of positions after the first in the random stream.
void draw_samples(const ScheduledSequence& sequence, std::int32_t behind, std::int32_t vocab_size,
                  SequenceResult& out) {
  const SampleSpec& spec = sequence.spec;
  for (std::uint32_t i = 0; i < spec.num_candidates; ++i) {
    const std::uint64_t bits = random_bits(spec.seed, spec.first_stream + i,
                                           static_cast<std::uint64_t>(spec.num_output_tokens + behind));
    Candidate candidate;
    candidate.token = token_at(bits, vocab_size);
    candidate.logprob = -static_cast<float>(bits >> 40) * 0x1.0p-23f;  // in (-2, 0]
    candidate.rank = 1;
    out.candidates.push_back(candidate);
  }
}

// Adds an entry for each prompt token whose log-probability follows from this step's rows.
void add_prompt_logprobs(const ScheduledSequence& sequence, SequenceResult& out) {
  const auto first = static_cast<std::size_t>(sequence.num_computed_tokens);
  for (std::size_t i = first; i < first + sequence.tokens.size(); ++i) {
    if (i + 1 >= static_cast<std::size_t>(sequence.num_prompt_tokens)) return;
    out.prompt_logprobs.push_back({.chosen = {sequence.all_tokens[i + 1], -1.0f, 1}, .top = {}});
  }
}

}  // namespace

void SimulatedModelRunner::submit(const ScheduledBatch& batch) {
  Running& running = running_.emplace_back();
  StepResult& out = running.result;
  const TimeNs started = std::max(clock_.now(), busy_until_);
  running.finished = started;
  if (std::exchange(fail_next_, false)) {
    out.status = internal_error("the simulated device is lost");
    return;
  }
  tiers_.submit(batch.tier_moves, started);
  running.empty = batch.empty();
  if (running.empty) return;
  const StepCost cost = step_cost(model_, batch, groups_, paged_);
  const bool has_prompts = batch.num_tokens > std::ssize(batch.sequences);
  const double scatter = scatter_.next(has_prompts);
  const double waits = mapper_.map(batch.page_maps, started);
  mapper_.map_ahead(batch.page_maps_ahead, started + static_cast<TimeNs>(std::ceil(waits * 1e9)));
  out.mapping = mapper_.take_stats();
  const auto duration = static_cast<TimeNs>(std::ceil((waits + cost.seconds * scatter) * 1e9));
  busy_seconds_ += to_seconds(duration);
  running.finished = busy_until_ = started + duration + std::exchange(stall_, 0);
  out.swap_seconds = cost.swap_seconds * scatter;
  out.sequences.resize(batch.sequences.size());
  for (std::size_t i = 0; i < batch.sequences.size(); ++i) {
    const ScheduledSequence& sequence = batch.sequences[i];
    if (sequence.prompt_logprobs >= 0) add_prompt_logprobs(sequence, out.sequences[i]);
    if (!sequence.sample) continue;
    if (sequence.spec.beam)
      draw_beam(sequence, model_.vocab_size, out.sequences[i]);
    else
      draw_samples(sequence, 0, model_.vocab_size, out.sequences[i]);
    for (std::int32_t behind = 1; behind <= sequence.num_draft_tokens; ++behind)
      draw_samples(sequence, behind, model_.vocab_size, out.sequences[i].after_drafts.emplace_back());
  }
}

StepResult SimulatedModelRunner::wait() {
  Running running = std::move(running_.front());
  running_.pop_front();
  if (running.finished > clock_.now()) clock_.advance_to(running.finished);
  if (!running.result.status.ok()) return std::move(running.result);
  const auto next = running.empty ? tiers_.next_done() : std::nullopt;
  if (next && *next > clock_.now()) clock_.advance_to(*next);
  running.result.tier_news = tiers_.take_news(clock_.now());
  return std::move(running.result);
}

}  // namespace pagoda
