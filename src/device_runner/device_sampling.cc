#include "device_runner/device_sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "device/kernels/launch_shapes.h"

namespace pagoda::device_runner {
namespace {

bool scores(const SampleRow& row) {
  return row.beam || row.params->logprobs || row.params->best_of > row.params->n;
}

// Number of most likely tokens that a row requests.
std::int32_t num_top_of(const SampleRow& row, std::int32_t vocab_size) {
  const std::int32_t wanted = row.params->logprobs.value_or(0);
  const std::int32_t width = row.beam ? static_cast<std::int32_t>(row.num_candidates) : 0;
  return std::min(std::max(wanted, width), vocab_size);
}

}  // namespace

bool has_penalties(const SamplingParams& params) {
  return params.repetition_penalty != 1.0f || params.frequency_penalty != 0 || params.presence_penalty != 0;
}

bool draws_on_device(const SampleRow& row) {
  const std::int32_t wanted = row.params->logprobs.value_or(0);
  const bool processed = row.params->processed_logprobs && row.params->logprobs && !row.beam;
  return wanted >= 0 && wanted <= device::kMostTop && !processed && row.params->typical_p >= 1.0f &&
         (!row.beam || row.num_candidates <= static_cast<std::uint32_t>(device::kMostTop));
}

bool scores_on_device(const PromptRow& row) { return row.num_top >= 0 && row.num_top <= device::kMostTop; }

void DrawPlan::clear() {
  edit_rows.clear();
  edits.clear();
  masks.clear();
  draw_rows.clear();
  score_rows.clear();
  prompt_tokens.clear();
  added_.clear();
  num_tokens = num_copies = num_top = 0;
  counted_.reset();
}

void DrawPlan::add(const DrawnRow& drawn, std::int32_t index, TokenCounts& counts) {
  const SampleRow& row = drawn.row;
  const SamplingParams& params = *row.params;
  const bool processed = !row.beam && needs_processing(params, static_cast<std::int32_t>(row.output.size()));
  const bool scored = scores(row);
  Added added = {.drawn = &row, .first_token = num_tokens};
  device::ScoreRow score = {.row = index, .first_token = num_tokens};
  if (processed || !row.mask.empty()) {
    device::EditRow edit = {.row = index};
    if (!row.mask.empty()) {
      edit.mask = std::ssize(masks);
      masks.insert(masks.end(), row.mask.begin(), row.mask.end());
    }
    if (processed) {
      if (scored) edit.copy = score.copy = num_copies++;
      if (has_penalties(params)) {
        const auto confirmed = row.output.first(row.output.size() - static_cast<std::size_t>(drawn.draft));
        if (counted_ != drawn.sequence) line_ = counts.line_of(drawn.id, row.prompt, confirmed);
        counted_ = drawn.sequence;
        edit.counts = line_;
      }
      add_edits(row, drawn.draft, edit);
    }
    edit_rows.push_back(edit);
  }
  if (!row.beam) {
    device::DrawRow draw = {.row = index,
                            .seed = row.seed,
                            .first_stream = row.first_stream,
                            .position = static_cast<std::uint64_t>(row.position),
                            .first_draw = num_tokens,
                            .draws = static_cast<std::int32_t>(row.num_candidates),
                            .has_best = processed || !row.mask.empty() ? 1 : 0};
    if (params.temperature >= kGreedyTemperature) {
      draw.temperature = std::max(params.temperature, kMinTemperature);
      draw.min_p_distance = params.min_p > 0 ? draw.temperature * std::log(params.min_p)
                                             : -std::numeric_limits<float>::infinity();
      draw.top_p = params.top_p;
      draw.top_k = std::max(params.top_k, 0);
    }
    num_tokens += draw.draws;
    draw_rows.push_back(draw);
  }
  if (scored) {
    score.tokens = num_tokens - score.first_token;
    score.first_top = num_top;
    score.top = num_top_of(row, vocab_size_);
    num_top += score.top;
    added.score_row = static_cast<std::int32_t>(score_rows.size());
    score_rows.push_back(score);
  }
  added_.push_back(added);
}

void DrawPlan::add(const PromptRow& row, std::int32_t index) {
  added_.push_back(
      {.prompt = &row, .first_token = num_tokens, .score_row = static_cast<std::int32_t>(score_rows.size())});
  const std::int32_t top = std::min(row.num_top, vocab_size_);
  score_rows.push_back(
      {.row = index, .first_token = num_tokens++, .tokens = 1, .first_top = num_top, .top = top});
  prompt_tokens.push_back(row.token);
  num_top += top;
}

// In the order of LogitsProcessor: every step considers single tokens.
void DrawPlan::add_edits(const SampleRow& row, std::int32_t num_drafts, device::EditRow& edit) {
  const SamplingParams& params = *row.params;
  if (!params.allowed_token_ids.empty()) {
    edit.allowed = std::ssize(masks);
    masks.resize(masks.size() + mask_words(vocab_size_), 0);
    const std::span<MaskWord> words = std::span(masks).last(mask_words(vocab_size_));
    for (const TokenId token : params.allowed_token_ids)
      if (token >= 0 && token < vocab_size_) allow(words, token);
  }
  edit_of_.resize(static_cast<std::size_t>(vocab_size_), -1);
  edit.first_edit = static_cast<std::int32_t>(edits.size());
  device::LogitEdit nowhere;
  const auto at = [&](TokenId token) -> device::LogitEdit& {
    if (token < 0 || token >= vocab_size_) return nowhere;
    std::int32_t& index = edit_of_[static_cast<std::size_t>(token)];
    if (index < 0) {
      index = static_cast<std::int32_t>(edits.size());
      edits.push_back({.token = token});
    }
    return edits[static_cast<std::size_t>(index)];
  };
  for (const std::vector<TokenId>& word : params.bad_words) {
    if (word.empty() || word.size() - 1 > row.output.size()) continue;
    const std::span<const TokenId> tail = row.output.last(word.size() - 1);
    if (std::equal(tail.begin(), tail.end(), word.begin())) at(word.back()).masked = 1;
  }
  if (static_cast<std::int32_t>(row.output.size()) < params.min_tokens)
    for (const std::vector<TokenId>& stops : {params.stop_token_ids, params.eos_token_ids})
      for (const TokenId token : stops) at(token).masked = 1;
  for (const auto& [token, bias] : params.logit_bias) at(token).bias += bias;
  edit.repetition = params.repetition_penalty;
  edit.frequency = params.frequency_penalty;
  edit.presence = params.presence_penalty;
  if (edit.counts >= 0)
    for (const TokenId token : row.output.last(static_cast<std::size_t>(num_drafts)))
      ++at(token).output_count;
  edit.edits = static_cast<std::int32_t>(edits.size()) - edit.first_edit;
  for (std::size_t i = static_cast<std::size_t>(edit.first_edit); i < edits.size(); ++i)
    edit_of_[static_cast<std::size_t>(edits[i].token)] = -1;
}

std::vector<TokenLogprob> DrawPlan::top_of(std::int32_t score_row, std::int32_t count,
                                           const DrawResults& there) const {
  const device::ScoreRow& row = score_rows[static_cast<std::size_t>(score_row)];
  std::vector<TokenLogprob> top;
  for (std::int32_t i = 0; i < std::min(count, row.top); ++i) {
    const device::ScoredToken& entry = there.top[row.first_top + i];
    const bool tied = i > 0 && entry.logit == there.top[row.first_top + i - 1].logit;
    top.push_back({entry.token, entry.logit - there.normalizers[score_row], tied ? top.back().rank : i + 1});
  }
  return top;
}

void DrawPlan::take(const DrawResults& there) const {
  for (const Added& added : added_) {
    const auto score_of = [&](std::int32_t token) {
      const device::TokenScore& score = there.scores[added.first_token + token];
      return std::pair(score.logit - there.normalizers[added.score_row], score.rank);
    };
    if (added.prompt != nullptr) {
      const auto [logprob, rank] = score_of(0);
      added.prompt->result->chosen = {added.prompt->token, logprob, rank};
      added.prompt->result->top = top_of(added.score_row, added.prompt->num_top, there);
      continue;
    }
    const SampleRow& row = *added.drawn;
    SequenceResult& result = *row.result;
    const auto most_likely = [&](std::int32_t count) {
      std::vector<TokenLogprob> top = top_of(added.score_row, count, there);
      if (!row.mask.empty())
        std::erase_if(top, [&](const TokenLogprob& entry) { return !allows(row.mask, entry.token); });
      return top;
    };
    result.candidates.clear();
    if (row.params->logprobs) result.top = most_likely(*row.params->logprobs);
    if (row.beam) {
      for (const TokenLogprob& entry : most_likely(static_cast<std::int32_t>(row.num_candidates)))
        result.candidates.push_back({entry.token, entry.logprob, entry.rank});
      continue;
    }
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(row.num_candidates); ++i) {
      Candidate candidate = {.token = there.tokens[added.first_token + i]};
      if (added.score_row >= 0) {
        const auto [logprob, rank] = score_of(i);
        candidate.logprob = logprob;
        if (row.params->logprobs) candidate.rank = rank;
      }
      result.candidates.push_back(candidate);
    }
  }
}

}  // namespace pagoda::device_runner
