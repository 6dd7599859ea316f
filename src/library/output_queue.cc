#include "library/output_queue.h"

#include <future>
#include <utility>

#include "base/check.h"
#include "constraint/grammar_service.h"
#include "text/stop_constraint.h"

namespace pagoda {
namespace {
constexpr std::chrono::milliseconds kLook{500};  // interval of checks that the engine is alive
constexpr std::size_t kPiece = std::size_t{1} << 20;
}  // namespace

OutputQueue::~OutputQueue() {
  std::unordered_map<std::uint64_t, Call> last;
  const std::lock_guard lock(mutex_);
  last.swap(calls_);  // later callers find no calls; `last` is destroyed after unlocking
}

void OutputQueue::ring(std::uint64_t id) {
  {
    const std::lock_guard lock(mutex_);
    const auto call = calls_.find(id);
    if (call == calls_.end()) return;
    if (call->second.busy) {
      call->second.rung = true;
      return;
    }
    bell_.push_back(id);
  }
  changed_.notify_one();
}

Status OutputQueue::compile_grammar(ApiGeneration& call, std::uint64_t id) {
  Status refused = ok_status();
  for (GrammarSpec& grammar : call.grammars) {
    CHECK(api_.grammars != nullptr);  // otherwise the call was refused earlier
    const auto outcome = std::make_shared<std::promise<Result<CompiledConstraint>>>();
    auto ready = outcome->get_future();
    api_.grammars->compile(id, std::move(grammar), [outcome](Result<CompiledConstraint> compiled) {
      outcome->set_value(std::move(compiled));
    });
    Result<CompiledConstraint> compiled = ready.get();
    if (compiled) {
      for (Request& request : call.requests)
        request.constraint = both_constraints(compiled->factory, std::move(request.constraint));
      return ok_status();
    }
    refused = compiled.error();
    if (refused.code() != StatusCode::invalid_argument) break;
  }
  return refused;
}

Status OutputQueue::submit(ParsedCall call, std::uint64_t id) {
  CHECK(call.requests.size() == 1);
  AnswerOptions options = std::move(call.response);
  options.return_token_ids = true;
  options.parser.reset();  // the text is returned unparsed
  auto writer = std::make_unique<RecordWriter>(std::move(options), call.response.stream, *api_.tokenizer);
  RecordWriter* const borrowed = writer.get();
  ApiGeneration parts;
  parts.requests = std::move(call.requests);
  parts.grammars = std::move(call.grammars);
  parts.answer = std::move(writer);
  parts.timeout_s = call.timeout_s;
  return start(std::move(parts), borrowed, id);
}

Status OutputQueue::submit(ApiGeneration call, std::uint64_t id) {
  CHECK(!call.answer->streaming() && !call.at_once);
  return start(std::move(call), nullptr, id);
}

Status OutputQueue::start(ApiGeneration call, RecordWriter* writer, std::uint64_t id) {
  PAGODA_RETURN_IF_ERROR(compile_grammar(call, id));
  const std::optional<double> timeout_s = call.timeout_s;
  auto generation =
      std::make_unique<Generation>(std::move(call), engine_, MemoryReservation(), [this, id] { ring(id); });
  Generation& started = *generation;
  std::unique_lock lock(mutex_);
  calls_.emplace(id, Call{.generation = std::move(generation), .writer = writer, .busy = true});
  lock.unlock();
  const TimeNs now = clock_.now();
  const TimeNs deadline = timeout_s ? now + static_cast<TimeNs>(*timeout_s * 1e9) : 0;
  Status status = started.start(id, now, deadline);
  lock.lock();
  let_go(id, !status.ok(), lock);
  return status;
}

void OutputQueue::let_go(std::uint64_t id, bool ended, std::unique_lock<std::mutex>& lock) {
  const auto place = calls_.find(id);
  Call& call = place->second;
  call.busy = false;
  if (ended || call.aborted) {
    const Call last = std::move(call);
    calls_.erase(place);
    lock.unlock();  // destroying a generation waits for the engine thread, which may be in ring()
    changed_.notify_all();
  } else if (std::exchange(call.rung, false)) {
    bell_.push_back(id);
    changed_.notify_one();
  }
}

bool OutputQueue::abort(std::uint64_t id) {
  std::unique_lock lock(mutex_);
  const auto place = calls_.find(id);
  if (place == calls_.end() || place->second.aborted) return false;
  place->second.aborted = true;
  if (!place->second.busy) let_go(id, true, lock);
  return true;
}

std::unique_ptr<OutputRecord> OutputQueue::look_at(std::uint64_t id, std::unique_lock<std::mutex>& lock) {
  const auto place = calls_.find(id);
  if (place == calls_.end()) return nullptr;
  Call& call = place->second;  // not erased while busy
  if (call.busy) {
    call.rung = true;
    return nullptr;
  }
  call.busy = true;
  lock.unlock();
  while (call.generation->pump(call.body, call.body.size() + kPiece)) {
  }
  const bool ended = call.generation->finished();
  std::unique_ptr<OutputRecord> record;
  if (call.writer != nullptr)
    record = call.writer->take_record(id);
  else if (ended)
    record = body_record(id, call.generation->error(), std::move(call.body));
  lock.lock();
  if (call.aborted) record.reset();
  let_go(id, ended, lock);
  if (!lock.owns_lock()) lock.lock();
  return record;
}

OutputQueue::Taken OutputQueue::next(std::optional<std::chrono::milliseconds> timeout) {
  const auto until = std::chrono::steady_clock::now() + timeout.value_or(std::chrono::milliseconds(0));
  std::unique_lock lock(mutex_);
  for (;;) {
    while (!bell_.empty()) {
      const std::uint64_t id = bell_.front();
      bell_.pop_front();
      if (auto record = look_at(id, lock)) return {.record = std::move(record)};
    }
    if (calls_.empty() && !timeout) return {.record = nullptr, .why = Nothing::idle};
    const auto now = std::chrono::steady_clock::now();
    if (timeout && now >= until) return {.record = nullptr, .why = Nothing::timeout};
    const auto look = now + kLook;
    const auto wake = timeout ? std::min<std::chrono::steady_clock::time_point>(until, look) : look;
    if (changed_.wait_until(lock, wake) == std::cv_status::timeout && bell_.empty() && !calls_.empty() &&
        !engine_.healthy())
      return {.record = nullptr, .why = Nothing::dead};
  }
}

}  // namespace pagoda
