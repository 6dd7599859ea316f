#include "sim/recorder.h"

#include "base/assign_or_return.h"
#include "base/log.h"

namespace pagoda {
namespace {
constexpr std::int64_t kFlushSteps = 64;  // a killed server loses at most this many steps
}  // namespace

Result<std::unique_ptr<Recorder>> Recorder::create(const std::string& path, const RunHeader& header,
                                                   const Clock& clock) {
  PAGODA_ASSIGN_OR_RETURN(auto writer, RunLogWriter::create(path, header));
  return std::unique_ptr<Recorder>(new Recorder(std::move(writer), clock));
}

Recorder::~Recorder() {
  write(LoggedEnd{});
  if (writer_ && !writer_->flush().ok())
    log_error("record", "the run log is incomplete: its end could not be written");
}

void Recorder::on_submit(const Request& request) {
  if (!writer_) return;
  Request copy = request;
  copy.arrival_time = request.arrival_time != 0 ? request.arrival_time - start_ : clock_.now() - start_;
  write(std::move(copy));
}

void Recorder::on_scheduled(std::int64_t, const ScheduledBatch& batch, std::span<SequenceGroup* const>) {
  if (writer_) decisions_.push_back(decisions_of(batch));
}

void Recorder::on_step(const StepReport& report) {
  if (!writer_) return;
  LoggedStep step = logged_step(std::move(decisions_.front()), report);
  decisions_.pop_front();
  step.started -= start_;
  step.finished -= start_;
  write(std::move(step));
  if (++num_steps_ % kFlushSteps != 0 || writer_->flush().ok()) return;
  log_warning("record", "cannot write to the run log any more; recording stops");
  writer_.reset();
}

}  // namespace pagoda
