#pragma once
// Arguments of the sampling kernels (device/kernels/sampling.cuh) for rows of logits. The sampler's meaning
// (sampler/) in plain numbers: penalties, biases and forbidden tokens become a list of edits of single
// tokens, allowed tokens become masks. Threads: none.
#include <vector>

#include "device/kernel_table.h"
#include "sampler/sampler.h"

namespace pagoda::device_runner {

// Whether the kernels give all that the row asks for; else the host's sampler draws from the row's logits.
// Beams and log-probabilities are the host's, as of now.
bool draws_on_device(const SampleRow& row);

class DrawPlan {
 public:
  explicit DrawPlan(std::int32_t vocab_size) : vocab_size_(vocab_size) {}

  void clear();
  // The next row of logits: one to draw from, or one from which nothing is drawn here.
  void add(const SampleRow& row);
  void skip() { draw_rows.push_back({.draws = 0}); }

  std::vector<device::EditRow> edit_rows;
  std::vector<device::LogitEdit> edits;
  std::vector<std::uint32_t> masks;
  std::vector<device::DrawRow> draw_rows;
  std::int32_t num_draws = 0;

 private:
  void add_edits(const SampleRow& row, device::EditRow& edit);

  std::int32_t vocab_size_;
  std::vector<std::int32_t> edit_of_;  // for each token in the present row: its edit, or -1
};

}  // namespace pagoda::device_runner
