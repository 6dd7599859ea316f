#pragma once
// Calibration: fits a cost model to steps measured on this machine. The model has the form of cost_model.h: a
// curve over the tokens of a step, and a cost for each sequence, for each K/V token read and for each pair of
// query and key. Measuring is done by cli/simulate/calibrate_command.cc, which runs the engine. Threads: any.
#include <span>
#include <string>
#include <vector>

#include "sim/cost_model.h"

namespace pagoda {

// A single step, or the median of several similar steps.
struct MeasuredStep {
  double tokens = 0, sequences = 0;
  double context_tokens = 0;   // K/V tokens read by sequences that compute one token
  double attention_pairs = 0;  // pairs of query and key in sequences that compute more than one token
  double seconds = 0;
};

// Returns the steps of a recorded run (run_log.h). A step lasts until the next one begins or, before a pause,
// until it ends.
Result<std::vector<MeasuredStep>> measured_steps(const std::string& log_path);

struct CalibrationReport {
  double median_error = 0, largest_error = 0;  // relative, over the measured steps
};

// The time of a call that maps this many system pages, and of one that unmaps them.
struct MeasuredMapping {
  double pages = 0, map_s = 0, unmap_s = 0;
};
// Sets the mapping costs from calls on one page of page_bytes and on `many`. Exact for calls of these sizes.
void calibrate_mapping(const MeasuredMapping& one, const MeasuredMapping& many, double page_bytes,
                       CostModel& model);

enum class Scatter : std::uint8_t {
  leave_out,  // steps are medians
  take,       // steps are single ones in order: their scatter becomes part of the model
};

// Sets the costs by nonnegative least squares of relative errors. `model` already has the fields that
// describe the language model. Costs that a single process cannot measure (links) are made free.
// invalid_argument: fewer than 4 steps, or all of one size.
Result<CalibrationReport> calibrate(std::span<const MeasuredStep> steps, CostModel& model,
                                    Scatter scatter = Scatter::leave_out);

}  // namespace pagoda
