#pragma once
// Arguments of the kernels for rows of logits (device/kernels/sampling.cuh, scores.cuh). Translates the
// sampler's parameters (sampler/) to plain numbers: biases and forbidden tokens become a list of edits of
// single tokens, allowed tokens become masks, penalties a line of TokenCounts. Threads: none.
#include <optional>
#include <vector>

#include "device/kernel_table.h"
#include "device_runner/token_counts.h"
#include "sampler/sampler.h"

namespace pagoda::device_runner {

// A row of logits to draw from.
struct DrawnRow {
  SampleRow row;
  SequenceId id{};
  std::size_t sequence = 0;  // rows of one sequence have the same number and are consecutive
  std::int32_t draft = 0;    // number of its last output tokens that are draft tokens
};

// True if the kernels provide everything that the row requests. Otherwise the host's sampler takes the row's
// logits: for more log-probabilities than kMostTop, processed ones, or wider beams.
bool draws_on_device(const SampleRow& row);
bool has_penalties(const SamplingParams& params);  // that need the counts of tokens
bool scores_on_device(const PromptRow& row);

// The kernels' results, in host memory.
struct DrawResults {
  const std::int32_t* tokens = nullptr;
  const float* normalizers = nullptr;
  const device::TokenScore* scores = nullptr;
  const device::ScoredToken* top = nullptr;
};

class DrawPlan {
 public:
  explicit DrawPlan(std::int32_t vocab_size) : vocab_size_(vocab_size) {}

  void clear();
  // Draws from row `index` of the logits, or scores it. Rows must stay in place until take().
  void add(const DrawnRow& drawn, std::int32_t index, TokenCounts& counts);
  void add(const PromptRow& row, std::int32_t index);
  // Fills in the rows' results.
  void take(const DrawResults& there) const;

  std::vector<device::EditRow> edit_rows;
  std::vector<device::LogitEdit> edits;
  std::vector<std::uint32_t> masks;
  std::vector<device::DrawRow> draw_rows;
  std::vector<device::ScoreRow> score_rows;
  std::vector<std::int32_t> prompt_tokens;
  std::int32_t num_tokens = 0, num_copies = 0, num_top = 0;

 private:
  struct Added {  // either of both, and the location of its results
    const SampleRow* drawn = nullptr;
    const PromptRow* prompt = nullptr;
    std::int32_t first_token = 0, score_row = -1;
  };
  void add_edits(const SampleRow& row, std::int32_t num_drafts, device::EditRow& edit);
  std::vector<TokenLogprob> top_of(std::int32_t score_row, std::int32_t count,
                                   const DrawResults& there) const;

  std::int32_t vocab_size_;
  std::vector<Added> added_;
  std::vector<std::int32_t> edit_of_;   // for each token: its edit in the current row, or -1
  std::optional<std::size_t> counted_;  // the last sequence with a line of counts,
  std::int32_t line_ = -1;              // and that line
};

}  // namespace pagoda::device_runner
