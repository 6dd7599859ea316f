// The step times of a recorded run.
#include "base/assign_or_return.h"
#include "sim/calibration.h"
#include "sim/run_log.h"

namespace pagoda {
namespace {

constexpr std::int64_t kColdSteps = 20;  // the first steps of a process, while caches and pages are cold
constexpr TimeNs kSmallGap = 2'000'000;  // between two steps of a busy engine; after a longer gap it was idle

MeasuredStep shape_of(const LoggedStep& step) {
  MeasuredStep out;
  for (const LoggedSequence& sequence : step.sequences) {
    const double count = sequence.count, before = sequence.num_computed_tokens;
    out.tokens += count;
    out.sequences += 1;
    if (sequence.count == 1)
      out.context_tokens += before + 1;
    else
      out.attention_pairs += count * before + count * (count + 1) / 2;
  }
  return out;
}

}  // namespace

Result<std::vector<MeasuredStep>> measured_steps(const std::string& log_path) {
  PAGODA_ASSIGN_OR_RETURN(auto log, RunLogReader::open(log_path));
  std::vector<MeasuredStep> out;
  TimeNs started = 0, finished = 0;
  while (true) {
    PAGODA_ASSIGN_OR_RETURN(auto event, log->next());
    if (!event) break;
    const auto* step = std::get_if<LoggedStep>(&*event);
    if (step == nullptr || step->failed || step->num_swapped_out + step->num_swapped_in > 0) continue;
    if (!out.empty() && step->started - finished < kSmallGap)
      out.back().seconds = to_seconds(step->started - started);
    out.push_back(shape_of(*step));
    out.back().seconds = to_seconds(step->finished - step->started);
    started = step->started;
    finished = step->finished;
  }
  if (std::ssize(out) > 2 * kColdSteps) out.erase(out.begin(), out.begin() + kColdSteps);
  std::erase_if(out, [](const MeasuredStep& step) { return step.seconds <= 0 || step.tokens < 1; });
  return out;
}

}  // namespace pagoda
