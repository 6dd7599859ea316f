#include "engine/queue_forecast.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <queue>

#include "base/strings.h"
#include "scheduler/admission_order.h"

namespace pagoda {
namespace {

constexpr double kForever = 3600;        // longer times are not distinguished
constexpr double kGuessedOutput = 256;   // output tokens of a request, before any has ended
constexpr double kWeight = 0.02;         // minimum weight of the latest request in the means
constexpr double kDeadlineMargin = 1.4;  // later arrivals lengthen the steps

class Play {
 public:
  explicit Play(const EngineLoad& load) : load_(load) {
    for (const QueuedWork& work : load.running) admit(work);
  }

  void wait(const QueuedWork& work) { waiting_.push_back(&work); }

  // Runs until the last waiting request has its first token.
  void run() {
    while ((next_ < waiting_.size() || !prompts_.empty()) && seconds_ < kForever) {
      while (next_ < waiting_.size() && fits(*waiting_[next_])) {
        if (next_ + 1 == waiting_.size()) last_ = num_computed_ + prompts_.size();
        admit(*waiting_[next_++]);
      }
      if (!prompts_.empty())
        compute();
      else
        skip_to_next_end();
      if (num_computed_ > last_) return;
      while (!ends_.empty() && ends_.top().step <= step_) leave();
    }
  }

  double seconds() const { return seconds_; }
  // The duration of one more token, with freed places refilled.
  double step_seconds() const {
    const double refilled =
        load_.means.output_tokens > 0 ? decodes_ / load_.means.output_tokens * load_.means.prompt_tokens : 0;
    const double tokens = load_.waiting.empty() ? 0 : refilled;
    return cost({.decodes = decodes_, .tokens = std::min(tokens, prompt_budget(0))});
  }

 private:
  struct Prompt {
    const QueuedWork* work;
    double left;
  };
  struct End {
    double step;
    const QueuedWork* work;
    bool operator>(const End& other) const { return step > other.step; }
  };

  double cost(const StepWork& work) const { return load_.budget.cost().seconds(work); }

  bool fits(const QueuedWork& work) const {
    if (sequences_ == 0) return true;
    return sequences_ + work.num_sequences <= load_.max_num_seqs &&
           kv_tokens_ + work.kv_tokens <= load_.kv_tokens;
  }
  void admit(const QueuedWork& work) {
    sequences_ += work.num_sequences;
    kv_tokens_ += work.kv_tokens;
    if (work.prompt_tokens > 0)
      prompts_.push_back({&work, work.prompt_tokens});
    else
      decode(work);
  }
  void decode(const QueuedWork& work) {
    decodes_ += work.num_sequences;
    ends_.push({step_ + std::max(work.output_tokens, 1.0), &work});
  }
  void leave() {
    const QueuedWork& work = *ends_.top().work;
    ends_.pop();
    decodes_ -= work.num_sequences;
    sequences_ -= work.num_sequences;
    kv_tokens_ -= work.kv_tokens;
  }
  double prompt_budget(double position) const {
    const double all = load_.paced ? load_.budget.tokens(static_cast<std::int32_t>(decodes_),
                                                         static_cast<std::int32_t>(position))
                                   : load_.step_tokens;
    return std::max(all - decodes_, 1.0);
  }
  double steps_to_next_end() const { return ends_.empty() ? 1e9 : std::max(ends_.top().step - step_, 1.0); }

  void skip_to_next_end() {
    const double steps = steps_to_next_end();
    seconds_ += steps * cost({.decodes = decodes_});
    step_ += steps;
  }

  // Computes the admitted prompts in order, for as many whole steps as pass without a change.
  void compute() {
    const Prompt& head = prompts_.front();
    const double budget = prompt_budget(head.work->prompt_tokens - head.left);
    const double steps = std::clamp(std::floor(head.left / budget), 1.0, steps_to_next_end());
    double tokens = steps * budget, attended = 0, taken = 0;
    step_ += steps;
    std::vector<const QueuedWork*> done;
    while (!prompts_.empty() && tokens > 0) {
      Prompt& prompt = prompts_.front();
      const double part = std::min(prompt.left, tokens);
      attended += part * (prompt.work->prompt_tokens - prompt.left + part / 2) / 1000;
      prompt.left -= part;
      tokens -= part;
      taken += part;
      if (prompt.left > 0) break;
      done.push_back(prompt.work);
      prompts_.pop_front();
      ++num_computed_;
    }
    seconds_ += steps * cost({.decodes = decodes_, .tokens = taken / steps, .attended = attended / steps});
    for (const QueuedWork* work : done) decode(*work);
  }

  const EngineLoad& load_;
  std::vector<const QueuedWork*> waiting_;
  std::size_t next_ = 0;  // next waiting request
  std::deque<Prompt> prompts_;
  std::size_t num_computed_ = 0;
  std::size_t last_ = ~std::size_t{0};  // number of prompts computed before the last request's prompt
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  double step_ = 0, seconds_ = 0, decodes_ = 0, sequences_ = 0, kv_tokens_ = 0;
};

}  // namespace

void TrafficMeans::on_begun(double num_prompt_tokens, double num_cached_tokens) {
  if (num_prompt_tokens <= 0) return;
  const double weight = std::max(1.0 / static_cast<double>(++num_begun_), kWeight);
  const double computed = std::max(num_prompt_tokens - num_cached_tokens, 1.0);
  prompt_tokens += weight * (computed - prompt_tokens);
  computed_share += weight * (computed / num_prompt_tokens - computed_share);
}

void TrafficMeans::on_ended(double num_output_tokens) {
  const double weight = std::max(1.0 / static_cast<double>(++num_ended_), kWeight);
  output_tokens += weight * (std::max(num_output_tokens, 1.0) - output_tokens);
}

double expected_output(double mean_output_tokens, std::int64_t max_tokens, std::int64_t so_far) {
  const double mean = mean_output_tokens > 0 ? mean_output_tokens : kGuessedOutput;
  const double room = static_cast<double>(std::max<std::int64_t>(max_tokens - so_far, 1));
  // An answer that is longer than most may become much longer.
  return std::min(room, std::max(mean - static_cast<double>(so_far), mean / 4));
}

const TenantLoad* EngineLoad::find(std::string_view tenant) const {
  const auto known = std::ranges::find(tenants, tenant, &TenantLoad::name);
  return known == tenants.end() ? nullptr : &*known;
}

QueuedWork expected_work(const EngineLoad& load, const OrderRecord& record) {
  QueuedWork out;
  const auto prompt = static_cast<double>(record.num_prompt_tokens);
  out.prompt_tokens = std::max(prompt * load.means.computed_share, 1.0);
  out.output_tokens = expected_output(load.means.output_tokens, record.max_output_tokens, 0);
  out.num_sequences = record.num_sequences;
  out.kv_tokens = prompt + out.num_sequences * out.output_tokens / 2;
  switch (facts(load.policy).queue) {
    case QueueOrder::arrival:
      break;
    case QueueOrder::rank:
      out.rank = rules(load.policy).rank(record, load.num_arrived + 1);
      break;
    case QueueOrder::turns: {
      const TenantLoad* const tenant = load.find(record.tenant);
      out.newcomer = tenant == nullptr || (tenant->num_running == 0 && tenant->num_waiting == 0);
      if (tenant != nullptr) out.rank = tenant->turn;
      break;
    }
  }
  return out;
}

void add_waiting(EngineLoad& load, QueuedWork work, const OrderRecord& record) {
  ++load.num_arrived;
  load.waiting.push_back(work);
  if (facts(load.policy).queue != QueueOrder::turns) return;
  auto tenant = std::ranges::find(load.tenants, record.tenant, &TenantLoad::name);
  if (tenant == load.tenants.end()) {
    load.tenants.push_back({.name = std::string(record.tenant), .turn = work.rank});
    tenant = load.tenants.end() - 1;
  }
  ++tenant->num_waiting;
  tenant->turn +=
      rules(load.policy)
          .charge(static_cast<std::int64_t>(work.prompt_tokens),
                  static_cast<std::int64_t>(work.output_tokens * work.num_sequences), record.weight);
}

double expected_service(const CostEstimate& cost, const TrafficMeans& means, const Request& request,
                        double allowed_s, double step_s) {
  const double tokens = static_cast<double>(request.prompt_token_ids.size()) * means.computed_share;
  const double prompt_s = cost.seconds({.tokens = tokens, .attended = tokens * tokens / 2000});
  if (means.output_tokens <= 0) return prompt_s;
  const double alone_s = std::max(cost.seconds({.decodes = 1}), 1e-9);
  const double outputs = std::min(expected_output(means.output_tokens, request.sampling.max_tokens, 0),
                                  std::max(allowed_s - prompt_s, 0.0) / alone_s / 2);
  return prompt_s + outputs * step_s;
}

QueueForecast forecast(const EngineLoad& load, const QueuedWork& work) {
  QueueForecast out;
  if (!load.budget.cost().known()) return out;
  EngineLoad empty = {.budget = load.budget,
                      .paced = load.paced,
                      .step_tokens = load.step_tokens,
                      .max_num_seqs = load.max_num_seqs,
                      .kv_tokens = load.kv_tokens,
                      .means = load.means};
  Play alone(empty);
  alone.wait(work);
  alone.run();
  out.alone_s = alone.seconds();

  if (work.newcomer) {  // admitted after the current step
    out.step_s = load.budget.cost().seconds({.decodes = static_cast<double>(load.running.size())});
    out.first_token_s = out.alone_s + out.step_s;
    return out;
  }
  Play play(load);
  for (const QueuedWork& other : load.waiting)
    if (other.rank <= work.rank) play.wait(other);
  play.wait(work);
  play.run();
  out.first_token_s = play.seconds();
  out.queue_s = std::max(out.first_token_s - out.alone_s, 0.0);
  out.step_s = play.step_seconds();
  return out;
}

Status check_in_time(const EngineLoad& load, const Request& request, TimeNs now, double max_queue_s,
                     double* wait_s) {
  const bool has_deadline = request.deadline != 0;
  if (has_deadline && request.deadline <= now)
    return Status(StatusCode::deadline_exceeded, "The request's deadline passed before it could start.")
        .with_reason("deadline_exceeded");
  // A request that would run alone is started: its result corrects the costs.
  if (load.running.empty() && load.waiting.empty()) return ok_status();
  if (!has_deadline && (max_queue_s <= 0 || request.follows)) return ok_status();
  const QueuedWork work = expected_work(load, order_record(request));
  const QueueForecast when = forecast(load, work);
  const double elapsed = std::max(to_seconds(now - load.time), 0.0);
  const double queue_s = std::max(when.queue_s - elapsed, 0.0);
  if (wait_s != nullptr) *wait_s = queue_s;
  const auto retry = [&] { return concat("about ", std::ceil(queue_s), " s"); };
  if (max_queue_s > 0 && !request.follows && queue_s > max_queue_s)
    return resource_exhausted(concat("The first token would be ", retry(),
                                     " late, and requests may wait at most ", fixed(max_queue_s, 1),
                                     " s (--max-queue-time). Try again later."))
        .with_reason("queue_time");
  if (!has_deadline) return ok_status();
  const double left = to_seconds(request.deadline - now);
  if (when.alone_s > left)
    return Status(StatusCode::deadline_exceeded, "The prompt alone takes longer than the request's deadline.")
        .with_reason("deadline_exceeded");
  const double service_s = expected_service(load.budget.cost(), load.means, request, left, when.step_s);
  const double first = std::max(when.first_token_s - elapsed, 0.0);
  if ((first - when.alone_s + service_s) * kDeadlineMargin > left)
    return resource_exhausted(concat("The request cannot be served within its deadline: ", retry(),
                                     " of waiting. Try again later."))
        .with_reason("deadline");
  return ok_status();
}

}  // namespace pagoda
