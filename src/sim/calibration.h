#pragma once
// Calibration: a cost model from steps that were measured on this machine. The form is cost_model.h's: a
// curve over the tokens of a step, a cost of each sequence, of each K/V token read, and of each pair of query
// and key. Not the measuring: cli/simulate/calibrate_command.cc runs the engine. Threads: any.
#include <span>
#include <string>
#include <vector>

#include "sim/cost_model.h"

namespace pagoda {

// One step, or the median of several alike.
struct MeasuredStep {
  double tokens = 0, sequences = 0;
  double context_tokens = 0;   // K/V read by sequences that compute one token
  double attention_pairs = 0;  // pairs of queries and keys, in sequences that compute more than one token
  double seconds = 0;
};

// The steps of a recorded run (run_log.h): each with the time until the next began, or, before a pause, its
// own.
Result<std::vector<MeasuredStep>> measured_steps(const std::string& log_path);

struct CalibrationReport {
  double median_error = 0, largest_error = 0;  // relative, over the measured steps
};

// A call that maps so many of the system's pages, or takes them out again.
struct MeasuredMapping {
  double pages = 0, map_s = 0, unmap_s = 0;
};
// Fills in what mapping costs, from calls on one page of page_bytes and on `many`: exact for calls like
// these.
void calibrate_mapping(const MeasuredMapping& one, const MeasuredMapping& many, double page_bytes,
                       CostModel& model);

enum class Scatter : std::uint8_t {
  leave_out,  // the steps are medians
  take,       // the steps are single ones in their order: how they scatter becomes part of the model
};

// Fills in what costs time, by least squares of relative errors without negative costs. `model` has the
// fields of the model; what one process cannot measure (links) is set to be free. invalid_argument: fewer
// than 4 steps, or of one size only.
Result<CalibrationReport> calibrate(std::span<const MeasuredStep> steps, CostModel& model,
                                    Scatter scatter = Scatter::leave_out);

}  // namespace pagoda
