#include "device_runner/device_sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace pagoda::device_runner {

bool draws_on_device(const SampleRow& row) {
  return !row.beam && !row.params->logprobs && row.params->best_of <= row.params->n;
}

void DrawPlan::clear() {
  edit_rows.clear();
  edits.clear();
  masks.clear();
  draw_rows.clear();
  num_draws = 0;
}

void DrawPlan::add(const SampleRow& row) {
  const SamplingParams& params = *row.params;
  const bool processed = needs_processing(params, static_cast<std::int32_t>(row.output.size()));
  if (processed || !row.mask.empty()) {
    device::EditRow edit = {.row = static_cast<std::int32_t>(draw_rows.size())};
    if (!row.mask.empty()) {
      edit.mask = std::ssize(masks);
      masks.insert(masks.end(), row.mask.begin(), row.mask.end());
    }
    if (processed) add_edits(row, edit);
    edit_rows.push_back(edit);
  }
  device::DrawRow draw = {.seed = row.seed,
                          .first_stream = row.first_stream,
                          .position = static_cast<std::uint64_t>(row.position),
                          .first_draw = num_draws,
                          .draws = static_cast<std::int32_t>(row.num_candidates),
                          .has_best = processed || !row.mask.empty() ? 1 : 0};
  if (params.temperature >= kGreedyTemperature) {
    draw.temperature = std::max(params.temperature, kMinTemperature);
    draw.min_p_distance = params.min_p > 0 ? draw.temperature * std::log(params.min_p)
                                           : -std::numeric_limits<float>::infinity();
    draw.top_p = params.top_p;
    draw.top_k = std::max(params.top_k, 0);
  }
  num_draws += draw.draws;
  draw_rows.push_back(draw);
}

// As LogitsProcessor goes through them: every step looks at single tokens.
void DrawPlan::add_edits(const SampleRow& row, device::EditRow& edit) {
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
  if (params.repetition_penalty != 1.0f)
    for (const std::span<const TokenId> tokens : {row.prompt, row.output})
      for (const TokenId token : tokens) at(token).repeated = 1;
  if (params.frequency_penalty != 0 || params.presence_penalty != 0)
    for (const TokenId token : row.output) ++at(token).output_count;
  edit.edits = static_cast<std::int32_t>(edits.size()) - edit.first_edit;
  for (std::size_t i = static_cast<std::size_t>(edit.first_edit); i < edits.size(); ++i)
    edit_of_[static_cast<std::size_t>(edits[i].token)] = -1;
}

}  // namespace pagoda::device_runner
