#pragma once
// QueueForecast: when a request that comes now would get its first token and be done, and whether that is too
// late. It plays the steps to come with what steps have cost so far (cost_estimate.h): decodes first, prompts
// in order with the tokens left of each step, waiting requests admitted as sequences and KV cache get free,
// and answers as long as answers have been. A burst frees no place for a long time and then all at once,
// which a mean departure rate does not capture. It is not a guarantee, and unknowns never refuse a request:
// before the first step, or with an empty queue, none is refused. The functions keep no state and
// read no clock. Units: seconds, tokens, sequences. Errors: resource_exhausted (reason queue_time or
// deadline), deadline_exceeded. Threads: any.
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

// Means over the requests so far; later ones count more.
struct TrafficMeans {
  double output_tokens = 0;   // a request's longest answer; 0: none has ended yet
  double prompt_tokens = 0;   // as far as they were computed
  double computed_share = 1;  // share of prompts; the rest was found in the prefix cache

  void on_begun(double num_prompt_tokens, double num_cached_tokens);
  void on_ended(double num_output_tokens);

 private:
  std::int64_t num_begun_ = 0, num_ended_ = 0;
};

// A request that waits, or what is left of one that runs.
struct QueuedWork {
  double prompt_tokens = 0;  // to be computed before it goes on
  double output_tokens = 0;  // expected of each of its sequences from then on
  std::int32_t num_sequences = 1;
  double kv_tokens = 0;   // slots it takes in the middle of its life
  std::int64_t rank = 0;  // among those who wait, lower first; among equals who came first
  bool newcomer = false;  // nothing of its tenant runs: it is admitted at once
};

// A tenant under an order with turns.
struct TenantLoad {
  std::string name;
  std::int64_t turn = 0;  // behind all of its requests that wait
  std::int64_t num_waiting = 0, num_running = 0;
};

// The input of a forecast: the engine between two steps.
struct EngineLoad {
  StepBudget budget{0, 1};  // with what steps have cost
  bool paced = false;       // whether steps obey it
  SchedulingPolicy policy = SchedulingPolicy::fcfs;
  TimeNs time = 0;         // when it was so
  double step_tokens = 0;  // tokens of any step, at most
  std::int32_t max_num_seqs = 0;
  double kv_tokens = 0;  // the whole KV cache
  TrafficMeans means = {};
  std::vector<QueuedWork> running = {}, waiting = {};  // the latter in order
  std::vector<TenantLoad> tenants = {};                // under an order with turns, by name
  std::int64_t num_arrived = 0;                        // since the start

  const TenantLoad* find(std::string_view tenant) const;
};

// Counts it among those who wait, behind those who do.
void add_waiting(EngineLoad& load, QueuedWork work, const OrderRecord& record);

// The work that a request will be once it waits.
QueuedWork expected_work(const EngineLoad& load, const OrderRecord& record);
// The tokens to expect of an answer that may have max_tokens and has `so_far`.
double expected_output(double mean_output_tokens, std::int64_t max_tokens, std::int64_t so_far);

// Seconds from its first step to its end, at `step_s` a token after the first, for one that may take
// `allowed_s` in all. How long an answer will be is a guess: one that would not fit in there alone counts as
// half of what would.
double expected_service(const CostEstimate& cost, const TrafficMeans& means, const Request& request,
                        double allowed_s, double step_s);

struct QueueForecast {
  double queue_s = 0;        // until it is begun, beyond what it takes alone
  double first_token_s = 0;  // from load.time on, as all of these
  double step_s = 0;         // time of each later token
  double alone_s = 0;        // to the first token, with the engine to itself
};

// Before any step has run: all zero.
QueueForecast forecast(const EngineLoad& load, const QueuedWork& work);

// Not ok: it would wait longer than max_queue_s (0: any time is right), or its deadline cannot be met.
// `wait_s`, where it is not null, gets the seconds that it would wait, if they had to be known.
Status check_in_time(const EngineLoad& load, const Request& request, TimeNs now, double max_queue_s,
                     double* wait_s = nullptr);

}  // namespace pagoda
