#include "server/generation.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <unordered_map>

#include "base/ends.h"

namespace pagoda {

struct Generation::Arrival {
  std::size_t prompt_index;
  RequestOutput output;
};

struct Generation::Mailbox {
  std::mutex mutex;
  std::vector<Arrival> arrivals;
  std::function<void()> wake;  // empty once the call is over
  bool woken = false;          // wake() was called and nothing has been taken since
  bool wake_each = true;       // false: wake only when a request ends; pieces are not needed earlier
  std::unordered_map<std::size_t, std::size_t> latest;  // by prompt: index of its last arrival

  void put(std::size_t prompt_index, RequestOutput output);
};

namespace {
constexpr std::size_t kMaxPumpTokens = 4096;  // about a millisecond
constexpr std::size_t kManyArrivals = 64;     // above it, outputs are merged

void append(SequenceDelta& to, SequenceDelta&& delta) {
  to.token_ids.insert(to.token_ids.end(), delta.token_ids.begin(), delta.token_ids.end());
  to.logprobs.insert(to.logprobs.end(), std::make_move_iterator(delta.logprobs.begin()),
                     std::make_move_iterator(delta.logprobs.end()));
  to.cumulative_logprob = delta.cumulative_logprob;
  to.finish_reason = delta.finish_reason;
  to.stop_token = delta.stop_token;
}

// Merges a later output of the same request.
void append(RequestOutput& to, RequestOutput&& output) {
  for (std::size_t i = 0; i < output.deltas.size(); ++i) {
    SequenceDelta& delta = output.deltas[i];
    const auto same = [&delta](const SequenceDelta& other) { return other.index == delta.index; };
    const bool in_place = i < to.deltas.size() && same(to.deltas[i]);
    const auto known = in_place ? to.deltas.begin() + static_cast<std::ptrdiff_t>(i)
                                : std::find_if(to.deltas.begin(), to.deltas.end(), same);
    if (known == to.deltas.end())
      to.deltas.push_back(std::move(delta));
    else if (delta.index == SequenceDelta::kBestSoFar)
      *known = std::move(delta);
    else
      append(*known, std::move(delta));
  }
  if (!output.prompt_logprobs.empty()) to.prompt_logprobs = std::move(output.prompt_logprobs);
  to.num_cached_tokens = std::max(to.num_cached_tokens, output.num_cached_tokens);
  to.finished = output.finished;
}

// True if the output shows that the prompt was computed, not just aborted.
bool computed(const RequestOutput& output) {
  if (!output.error.ok()) return false;
  const auto shows = [](const SequenceDelta& delta) {
    const bool ended =
        delta.finish_reason == FinishReason::stop || delta.finish_reason == FinishReason::length;
    return ended || !delta.token_ids.empty() || !delta.vector.empty();
  };
  return !output.prompt_logprobs.empty() || std::ranges::any_of(output.deltas, shows);
}

bool only_best_so_far(const RequestOutput& output) {
  return !output.finished && output.deltas.size() == 1 &&
         output.deltas.front().index == SequenceDelta::kBestSoFar;
}
}  // namespace

void Generation::Mailbox::put(std::size_t prompt_index, RequestOutput output) {
  // An output that only has a beam search's best_so_far is replaced by a newer one: each is as long as the
  // answer.
  if (Arrival* last = last_of(arrivals); last != nullptr && last->prompt_index == prompt_index &&
                                         only_best_so_far(output) && only_best_so_far(last->output)) {
    last->output = std::move(output);
    return;
  }
  if (arrivals.size() >= kManyArrivals && latest.contains(prompt_index) && output.error.ok()) {
    append(arrivals[latest[prompt_index]].output, std::move(output));
    return;
  }
  latest[prompt_index] = arrivals.size();
  arrivals.push_back({prompt_index, std::move(output)});
}

class Generation::Sink final : public OutputSink {
 public:
  Sink(std::shared_ptr<Mailbox> mailbox, std::size_t prompt_index)
      : mailbox_(std::move(mailbox)), prompt_index_(prompt_index) {}

  void on_output(RequestOutput output) override {
    std::lock_guard lock(mailbox_->mutex);
    if (!mailbox_->wake) return;
    const bool worth_waking = mailbox_->wake_each || output.finished;
    mailbox_->put(prompt_index_, std::move(output));
    if (!worth_waking) return;
    if (std::exchange(mailbox_->woken, true)) return;
    mailbox_->wake();  // under the lock, so that it is never called after the call's end
  }

 private:
  std::shared_ptr<Mailbox> mailbox_;
  std::size_t prompt_index_;
};

Generation::Generation(ApiGeneration call, EngineClient& engine, MemoryReservation memory,
                       std::function<void()> wake)
    : engine_(engine),
      mailbox_(std::make_shared<Mailbox>()),
      requests_(std::move(call.requests)),
      memory_(std::move(memory)),
      all_bytes_(memory_.bytes()),
      answer_(std::move(call.answer)),
      streaming_(answer_->streaming()) {
  for (const Request& request : requests_)
    use_.push_back({.prompt_tokens = static_cast<std::int64_t>(request.prompt_token_ids.size()),
                    .num_choices = request.sampling.n});
  mailbox_->wake = std::move(wake);
  mailbox_->wake_each = answer_->needs_every_output();
}

Generation::~Generation() { cancel(); }

Status Generation::start(std::uint64_t first_id, TimeNs now, TimeNs deadline) {
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    Request request = std::move(requests_[i]);
    request.id = RequestId{first_id + i};
    request.arrival_time = now;
    request.deadline = deadline;
    request.follows = i > 0;
    const RequestId id = request.id;
    if (Status status = engine_.submit(std::move(request), std::make_shared<Sink>(mailbox_, i));
        !status.ok()) {
      cancel();
      return status;
    }
    running_.push_back(id);
    ids_.push_back(id);
  }
  return {};
}

bool Generation::pump(std::string& out, std::size_t max_bytes) {
  if (writing_ && (writing_ = answer_->take(out, max_bytes))) return true;
  if (taken_.empty()) {
    std::lock_guard lock(mailbox_->mutex);
    mailbox_->woken = false;
    taken_.swap(mailbox_->arrivals);
    mailbox_->latest.clear();
    std::reverse(taken_.begin(), taken_.end());
  }
  std::size_t num_tokens = 0;
  while (!taken_.empty() && !writing_ && out.size() < max_bytes && num_tokens < kMaxPumpTokens) {
    Arrival arrival = std::move(taken_.back());
    taken_.pop_back();
    for (const SequenceDelta& delta : arrival.output.deltas) num_tokens += 1 + delta.token_ids.size();
    if (arrival.output.finished) running_[arrival.prompt_index] = RequestId{0};
    note_use(arrival);
    answer_->add(arrival.prompt_index, std::move(arrival.output));
    for (const SequenceStop& stop : answer_->take_stops())
      engine_.abort_sequence(ids_[stop.prompt_index], stop.sequence);
    if (streaming_) writing_ = answer_->take(out, max_bytes);
  }
  if (answer_->finished()) {
    // A failed call may leave other prompts running. After a stop string, the request has been ended by
    // abort_sequence, and only its last output is pending.
    if (!answer_->error().ok()) abort_running();
    taken_.clear();
    if (!writing_) writing_ = answer_->take(out, max_bytes);
  }
  return writing_ || !taken_.empty();
}

void Generation::note_use(const Arrival& arrival) {
  PromptUse& use = use_[arrival.prompt_index];
  const RequestOutput& output = arrival.output;
  use.cached_tokens = std::max<std::int64_t>(use.cached_tokens, output.num_cached_tokens);
  use.computed = use.computed || computed(output);
  if (arrival.prompt_index == 0) times_ = output.times;
}

UsedTokens Generation::used() const {
  UsedTokens used{.completion = answer_->usage().completion_tokens + unread_tokens_};
  for (const PromptUse& use : use_) {
    if (!use.computed) continue;
    used.prompt += use.prompt_tokens;
    used.cached += use.cached_tokens;
  }
  return used;
}

void Generation::shrink() {
  (void)memory_.try_resize(static_cast<std::int64_t>(static_cast<double>(all_bytes_) * answer_->held()));
}

void Generation::abort_running() {
  for (RequestId& id : running_)
    if (const RequestId ended = std::exchange(id, RequestId{0}); ended != RequestId{0}) engine_.abort(ended);
}

void Generation::cancel() {
  std::vector<Arrival> last;
  {
    std::lock_guard lock(mailbox_->mutex);
    mailbox_->wake = nullptr;
    last.swap(mailbox_->arrivals);
    mailbox_->latest.clear();
  }
  abort_running();
  // Counted but not rendered: the output has no reader and may be long.
  last.insert(last.end(), std::make_move_iterator(taken_.begin()), std::make_move_iterator(taken_.end()));
  taken_.clear();
  if (answer_->finished()) return;
  for (const Arrival& arrival : last) {
    note_use(arrival);
    for (const SequenceDelta& delta : arrival.output.deltas)
      if (delta.index >= 0 && delta.index < use_[arrival.prompt_index].num_choices)
        unread_tokens_ += static_cast<std::int64_t>(delta.token_ids.size());
  }
}

void Generation::fail(Status error) {
  answer_->fail(std::move(error));
  cancel();
}

}  // namespace pagoda
