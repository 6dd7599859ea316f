#pragma once
// EngineMetrics: the engine's counters, gauges and histograms, under vLLM's names and buckets, so that
// dashboards for vLLM work. Metrics that vLLM does not have are named "pagoda:...", whatever prefix the
// others have. It also keeps the sums over all steps for snapshots. Threads: updated by the engine thread,
// exposed by any.
#include "base/clock.h"
#include "base/metrics.h"
#include "engine/engine_config.h"
#include "engine/step_observer.h"
#include "request/engine_snapshot.h"

namespace pagoda {

class EngineMetrics final : public StepObserver {
 public:
  EngineMetrics(MetricsRegistry& registry, const EngineConfig& config, const KvManager& kv);

  void on_step(const StepReport& report) override;
  void on_usage(const KvUsage& usage) override;
  void on_outcome(const StepOutcome& outcome) override;
  void on_state(const EngineHoldings& state) override;
  void on_drafts_verified(std::int32_t num_tried, std::int32_t num_accepted) override;
  void on_tokens(const TokenProgress& progress) override;
  void on_ended(const EndedRequest& ended) override;
  void on_sleep(std::int32_t level) override;

  // Any thread.
  void on_refused(const Status& status);

  const EngineTotals& totals() const { return totals_; }  // engine thread only

 private:
  struct RequestHistograms {
    RequestHistograms(MetricsRegistry& registry, std::int32_t max_model_len);
    Histogram &first_token, &inter_token, &per_output_token, &latency, &queue, &inference, &prefill, &decode;
    Histogram &request_prompt_tokens, &request_generation_tokens, &max_generation_tokens, &params_n,
        &params_max_tokens;
  };

  Gauge &running_, &waiting_, &swapped_, &kv_usage_, &swap_usage_;
  Gauge &slots_token_, &slots_reserved_, &slots_internal_, &slots_external_, &slots_cached_, &saved_blocks_;
  Counter &preemptions_, &swap_preemptions_, &swapped_out_, &swapped_in_, &copied_, &padded_, &prompt_tokens_,
      &prompt_tokens_cached_, &generation_tokens_, &cache_queries_, &cache_hits_, &external_queries_,
      &external_hits_;
  // With --kv-manager virtual.
  Counter &map_calls_, &map_calls_ahead_, &mapped_pages_, &mapped_pages_ahead_, &map_seconds_,
      &map_seconds_ahead_, &map_delayed_steps_;
  Counter &refused_full_, &refused_queue_time_, &refused_deadline_;
  Counter &success_stop_, &success_length_, &success_abort_, &success_error_;
  RequestHistograms requests_;
  Histogram& iteration_tokens_;
  Counter &drafts_, &draft_tokens_, &accepted_tokens_;
  Counter &masks_, &settled_rows_;
  Gauge &awake_, &weights_released_, &all_released_;
  std::vector<Counter*> accepted_at_;  // by position in the draft
  EngineTotals totals_;
  SchedulerCounts seen_;
  PrefixCacheStats seen_cache_;
};

}  // namespace pagoda
