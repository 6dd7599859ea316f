#pragma once
// EngineMetrics: the engine's counters, gauges and histograms, under vLLM's names and buckets, so that
// dashboards made for it read ours. What vLLM does not have is named "pagoda:...", whatever the others'
// prefix. Threads: updated by the engine thread, exposed by any.
#include "base/clock.h"
#include "base/metrics.h"
#include "engine/engine_config.h"
#include "kv_cache/kv_manager.h"
#include "request/request_output.h"
#include "request/request_times.h"
#include "request/step_result.h"

namespace pagoda {

class EngineMetrics {
 public:
  EngineMetrics(MetricsRegistry& registry, const EngineConfig& config, const KvManager& kv);

  void on_step(const SchedulerCounts& counts, const KvManager& kv, std::int32_t num_batched_tokens);
  void on_usage(const KvUsage& usage);
  void on_copies(std::int64_t count) { copied_.add(static_cast<double>(count)); }
  void on_mapping(const MapStats& stats);
  void on_first_token(const RequestTimes& times, std::int64_t num_prompt_tokens,
                      std::int64_t num_cached_tokens);
  void on_next_token(TimeNs since_last);
  void on_tokens(std::int64_t count) { generation_tokens_.add(static_cast<double>(count)); }
  // Of one sequence in one step: drafts computed, and how many of them were right.
  void on_drafts(std::int32_t num_tried, std::int32_t num_accepted);
  // Of the constrained in one step: masks asked for, and rows that needed no logits.
  void on_masks(std::int64_t num_masks, std::int64_t num_settled_rows);
  void on_finished(const RequestTimes& times, TimeNs now, const Request& request, std::int64_t longest_output,
                   std::int64_t total_output, FinishReason reason);

  void on_sleep(std::int32_t level);  // -1: it is awake

  // Any thread.
  void on_refused(const Status& status);

  double prompt_tokens() const { return prompt_tokens_.value(); }
  double generation_tokens() const { return generation_tokens_.value(); }

 private:
  Gauge &running_, &waiting_, &swapped_, &kv_usage_, &swap_usage_;
  Gauge &slots_token_, &slots_reserved_, &slots_internal_, &slots_external_, &slots_cached_, &saved_blocks_;
  Counter &preemptions_, &swap_preemptions_, &swapped_out_, &swapped_in_, &copied_, &padded_, &prompt_tokens_,
      &prompt_tokens_cached_, &generation_tokens_, &cache_queries_, &cache_hits_;
  // Of --kv-manager virtual.
  Counter &map_calls_, &map_calls_ahead_, &mapped_pages_, &mapped_pages_ahead_, &map_seconds_,
      &map_seconds_ahead_, &map_delayed_steps_;
  Counter &refused_full_, &refused_queue_time_, &refused_deadline_;
  Counter &success_stop_, &success_length_, &success_abort_, &success_error_;
  Histogram &first_token_, &inter_token_, &per_output_token_, &latency_, &queue_, &inference_, &prefill_,
      &decode_;
  Histogram &request_prompt_tokens_, &request_generation_tokens_, &max_generation_tokens_, &params_n_,
      &params_max_tokens_, &iteration_tokens_;
  Counter &drafts_, &draft_tokens_, &accepted_tokens_;
  Counter &masks_, &settled_rows_;
  Gauge &awake_, &weights_released_, &all_released_;
  std::vector<Counter*> accepted_at_;  // by place in the draft
  SchedulerCounts seen_;
  PrefixCacheStats seen_cache_;
};

}  // namespace pagoda
