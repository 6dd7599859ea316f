#pragma once
// QueueForecast: when a request that arrives now would get its first token and finish, and whether that is
// too late. It simulates the coming steps with the costs of past ones (cost_estimate.h): decodes first,
// prompts in order with each step's remaining tokens, waiting requests admitted as sequences and KV cache
// become free, answers of average length. After a burst no place is freed for long, then many at once, which
// a mean departure rate does not capture. No guarantee, and unknowns never refuse a request: before the first
// step, or with an empty queue, none is refused. Stateless; reads no clock. Units: seconds, tokens,
// sequences. Errors: resource_exhausted (reason queue_time or deadline), deadline_exceeded. Threads: any.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "engine/step_budget.h"
#include "request/request.h"
#include "scheduler/admission_order.h"

namespace pagoda {

// Means over the requests so far; recent ones count more.
struct TrafficMeans {
  double output_tokens = 0;   // a request's longest answer; 0: none has ended yet
  double prompt_tokens = 0;   // counts only the computed ones
  double computed_share = 1;  // share of prompt tokens computed; the rest was found in the prefix cache

  void on_begun(double num_prompt_tokens, double num_cached_tokens);
  void on_ended(double num_output_tokens);

 private:
  std::int64_t num_begun_ = 0, num_ended_ = 0;
};

// A waiting request, or the remaining work of a running one.
struct QueuedWork {
  double prompt_tokens = 0;  // to be computed before it can decode
  double output_tokens = 0;  // expected for each of its sequences from then on
  std::int32_t num_sequences = 1;
  double kv_tokens = 0;   // slots that it holds halfway through its output
  std::int64_t rank = 0;  // among waiting requests, lower first; ties are broken by arrival
  bool newcomer = false;  // nothing of its tenant runs: it is admitted at once
};

// A tenant under an order with turns.
struct TenantLoad {
  std::string name;
  std::int64_t turn = 0;  // after all of its waiting requests
  std::int64_t num_waiting = 0, num_running = 0;
};

// The input of a forecast: the engine between two steps.
struct EngineLoad {
  StepBudget budget{0, 1};  // with the costs learned from past steps
  bool paced = false;       // whether steps obey `budget`
  SchedulingPolicy policy = SchedulingPolicy::fcfs;
  TimeNs time = 0;         // when the load was taken
  double step_tokens = 0;  // maximum tokens of any step
  std::int32_t max_num_seqs = 0;
  double kv_tokens = 0;  // the whole KV cache
  TrafficMeans means = {};
  std::vector<QueuedWork> running = {}, waiting = {};  // waiting: in order
  std::vector<TenantLoad> tenants = {};                // under an order with turns, by name
  std::int64_t num_arrived = 0;                        // since the start

  const TenantLoad* find(std::string_view tenant) const;
};

// Adds the request to the end of the waiting ones.
void add_waiting(EngineLoad& load, QueuedWork work, const OrderRecord& record);

// The work that a request will amount to while it waits.
QueuedWork expected_work(const EngineLoad& load, const OrderRecord& record);
// Expected number of further tokens of an answer with limit max_tokens that has `so_far` tokens.
double expected_output(double mean_output_tokens, std::int64_t max_tokens, std::int64_t so_far);

// Seconds from the request's first step to its end, at `step_s` per token after the first, if it may take
// `allowed_s` in total. The length of an answer is a guess, capped at half of what would fit into the allowed
// time if the request ran alone.
double expected_service(const CostEstimate& cost, const TrafficMeans& means, const Request& request,
                        double allowed_s, double step_s);

struct QueueForecast {
  double queue_s = 0;        // until it starts, beyond the time that it takes alone
  double first_token_s = 0;  // from load.time on, as all of these
  double step_s = 0;         // duration of each later token
  double alone_s = 0;        // to the first token, if it ran alone
};

// All zero before any step has run.
QueueForecast forecast(const EngineLoad& load, const QueuedWork& work);

// Not ok if the request would wait longer than max_queue_s (0: no limit), or its deadline cannot be met.
// `wait_s`, if not null, receives the expected wait in seconds, if it had to be computed.
Status check_in_time(const EngineLoad& load, const Request& request, TimeNs now, double max_queue_s,
                     double* wait_s = nullptr);

}  // namespace pagoda
