#include "engine/engine_metrics.h"

#include <algorithm>

#include "base/strings.h"

namespace pagoda {
namespace {

const std::vector<double> kFirstToken{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,  0.5,   0.75,
                                      1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0};
const std::vector<double> kPerToken{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,  0.3,  0.4, 0.5,
                                    0.75, 1.0,   2.5,  5.0,   7.5, 10.0, 20.0, 40.0, 80.0};
const std::vector<double> kLatency{0.3,  0.5,  0.8,  1.0,  1.5,   2.0,   2.5,   5.0,   10.0,   15.0,  20.0,
                                   30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};

// 1, 2, 5, 10, 20, 50 … up to `limit`.
std::vector<double> one_two_five(std::int32_t limit) {
  std::vector<double> out;
  for (std::int64_t power = 1; power <= limit; power *= 10) {
    for (const std::int64_t mantissa : {1, 2, 5}) {
      if (mantissa * power <= limit) out.push_back(static_cast<double>(mantissa * power));
    }
  }
  return out;
}

// The states of the paper's Fig. 2; the remainder to 1 is free.
Gauge& slots(MetricsRegistry& r, std::string_view state) {
  return r.gauge("pagoda:kv_cache_slots_perc",
                 "Share of the KV cache's token slots in each state. 1 means 100 percent.",
                 concat("state=\"", state, "\""));
}

Counter& mapping(MetricsRegistry& r, std::string_view name, std::string_view help, std::string_view when) {
  return r.counter(name, help, concat("when=\"", when, "\""));
}

Counter& refused(MetricsRegistry& r, std::string_view reason) {
  return r.counter("pagoda:requests_refused", "Number of requests refused on arrival, by reason.",
                   concat("reason=\"", reason, "\""));
}

Gauge& sleep_state(MetricsRegistry& r, std::string_view state) {
  return r.gauge("engine_sleep_state",
                 "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake; "
                 "weights_offloaded = 1 means sleep level 1; discard_all = 1 means sleep level 2.",
                 concat("sleep_state=\"", state, "\""));
}

constexpr std::string_view kMapCalls =
    "Number of system calls that mapped or unmapped KV pages (--kv-manager virtual).";
constexpr std::string_view kMappedPages = "Number of KV pages mapped (--kv-manager virtual).";
constexpr std::string_view kMapSeconds = "Seconds spent mapping KV pages (--kv-manager virtual).";

}  // namespace

EngineMetrics::RequestHistograms::RequestHistograms(MetricsRegistry& r, std::int32_t max_model_len)
    : first_token(r.histogram("time_to_first_token_seconds", "Histogram of time to first token in seconds.",
                              kFirstToken)),
      inter_token(r.histogram("inter_token_latency_seconds", "Histogram of inter-token latency in seconds.",
                              kPerToken)),
      per_output_token(r.histogram("request_time_per_output_token_seconds",
                                   "Histogram of time per output token in seconds per request.", kPerToken)),
      latency(r.histogram("e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.",
                          kLatency)),
      queue(r.histogram("request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.",
                        kLatency)),
      inference(r.histogram("request_inference_time_seconds",
                            "Histogram of time spent in RUNNING phase for request.", kLatency)),
      prefill(r.histogram("request_prefill_time_seconds",
                          "Histogram of time spent in PREFILL phase for request.", kLatency)),
      decode(r.histogram("request_decode_time_seconds",
                         "Histogram of time spent in DECODE phase for request.", kLatency)),
      request_prompt_tokens(r.histogram("request_prompt_tokens", "Number of prefill tokens processed.",
                                        one_two_five(max_model_len))),
      request_generation_tokens(r.histogram("request_generation_tokens",
                                            "Number of generation tokens processed.",
                                            one_two_five(max_model_len))),
      max_generation_tokens(r.histogram("request_max_num_generation_tokens",
                                        "Histogram of maximum number of requested generation tokens.",
                                        one_two_five(max_model_len))),
      params_n(r.histogram("request_params_n", "Histogram of the n request parameter.", {1, 2, 5, 10, 20})),
      params_max_tokens(r.histogram("request_params_max_tokens",
                                    "Histogram of the max_tokens request parameter.",
                                    one_two_five(max_model_len))) {}

EngineMetrics::EngineMetrics(MetricsRegistry& r, const EngineConfig& config, const KvManager& kv)
    : running_(r.gauge("num_requests_running", "Number of requests in model execution batches.")),
      waiting_(r.gauge("num_requests_waiting", "Number of requests waiting to be processed.")),
      swapped_(r.gauge("num_requests_swapped", "Number of requests swapped out to the swap space.")),
      kv_usage_(r.gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.")),
      swap_usage_(r.gauge("cpu_cache_usage_perc", "Swap space usage. 1 means 100 percent usage.")),
      slots_token_(slots(r, "token")),
      slots_reserved_(slots(r, "reserved")),
      slots_internal_(slots(r, "internal_fragmentation")),
      slots_external_(slots(r, "external_fragmentation")),
      slots_cached_(slots(r, "cached")),
      saved_blocks_(
          r.gauge("pagoda:kv_cache_saved_perc", "Share of KV blocks saved by sharing. 1 means 100 percent.")),
      preemptions_(r.counter("num_preemptions", "Cumulative number of preemptions from the engine.")),
      swap_preemptions_(r.counter("pagoda:num_preemptions_by_swap",
                                  "Cumulative number of preemptions that swapped to CPU memory.")),
      swapped_out_(r.counter("pagoda:swapped_out_blocks", "Number of KV blocks copied to the swap space.")),
      swapped_in_(
          r.counter("pagoda:swapped_in_blocks", "Number of KV blocks copied back from the swap space.")),
      copied_(r.counter("pagoda:kv_blocks_copied",
                        "Number of shared KV blocks copied before a write (copy-on-write).")),
      padded_(r.counter("pagoda:padded_tokens",
                        "Number of padding tokens that padded batches would have computed.")),
      prompt_tokens_(r.counter("prompt_tokens", "Number of prefill tokens processed.")),
      prompt_tokens_cached_(
          r.counter("prompt_tokens_cached", "Number of prompt tokens taken from the prefix cache.")),
      generation_tokens_(r.counter("generation_tokens", "Number of generation tokens processed.")),
      cache_queries_(
          r.counter("prefix_cache_queries", "Prefix cache queries, in terms of number of queried tokens.")),
      cache_hits_(r.counter("prefix_cache_hits", "Prefix cache hits, in terms of number of cached tokens.")),
      external_queries_(r.counter("external_prefix_cache_queries",
                                  "External prefix cache queries, in terms of number of queried tokens.")),
      external_hits_(r.counter("external_prefix_cache_hits",
                               "External prefix cache hits, in terms of number of cached tokens.")),
      map_calls_(mapping(r, "pagoda:kv_map_calls", kMapCalls, "in_step")),
      map_calls_ahead_(mapping(r, "pagoda:kv_map_calls", kMapCalls, "ahead")),
      mapped_pages_(mapping(r, "pagoda:kv_mapped_pages", kMappedPages, "in_step")),
      mapped_pages_ahead_(mapping(r, "pagoda:kv_mapped_pages", kMappedPages, "ahead")),
      map_seconds_(mapping(r, "pagoda:kv_map_seconds", kMapSeconds, "in_step")),
      map_seconds_ahead_(mapping(r, "pagoda:kv_map_seconds", kMapSeconds, "ahead")),
      map_delayed_steps_(
          r.counter("pagoda:kv_map_delayed_steps", "Number of steps delayed by mapping KV pages.")),
      refused_full_(refused(r, "queue_full")),
      refused_queue_time_(refused(r, "queue_time")),
      refused_deadline_(refused(r, "deadline")),
      success_stop_(r.counter("request_success", "Count of finished requests.", "finished_reason=\"stop\"")),
      success_length_(
          r.counter("request_success", "Count of finished requests.", "finished_reason=\"length\"")),
      success_abort_(
          r.counter("request_success", "Count of finished requests.", "finished_reason=\"abort\"")),
      success_error_(
          r.counter("request_success", "Count of finished requests.", "finished_reason=\"error\"")),
      requests_(r, config.max_model_len),
      iteration_tokens_(r.histogram("iteration_tokens_total",
                                    "Histogram of number of tokens per engine_step.",
                                    {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384})),
      drafts_(r.counter("spec_decode_num_drafts", "Number of spec decoding drafts.")),
      draft_tokens_(r.counter("spec_decode_num_draft_tokens", "Number of draft tokens.")),
      accepted_tokens_(r.counter("spec_decode_num_accepted_tokens", "Number of accepted tokens.")),
      masks_(r.counter("pagoda:constraint_masks", "Number of token masks computed for structured output.")),
      settled_rows_(
          r.counter("pagoda:settled_rows",
                    "Number of tokens chosen without logits, since structured output allowed only one.")),
      awake_(sleep_state(r, "awake")),
      weights_released_(sleep_state(r, "weights_offloaded")),
      all_released_(sleep_state(r, "discard_all")) {
  on_sleep(-1);
  for (std::int32_t i = 0; config.speculative && i < config.speculative->num_speculative_tokens; ++i) {
    accepted_at_.push_back(&r.counter("spec_decode_num_accepted_tokens_per_pos",
                                      "Accepted tokens per draft position.", concat("position=\"", i, "\"")));
  }
  r.gauge("cache_config_info", "Information of the KV cache configuration.",
          concat("block_size=\"", kv.geometry().block_size(), "\",enable_prefix_caching=\"",
                 config.enable_prefix_caching ? "True" : "False", "\",num_gpu_blocks=\"", kv.num_blocks(),
                 "\",num_blocks=\"", kv.num_blocks(), "\""))
      .set(1);
}

void EngineMetrics::on_sleep(std::int32_t level) {
  awake_.set(level < 0 ? 1 : 0);
  weights_released_.set(level == 1 ? 1 : 0);
  all_released_.set(level == 2 ? 1 : 0);
}

void EngineMetrics::on_state(const EngineHoldings& state) {
  const SchedulerCounts& counts = state.counts;
  const KvManager& kv = state.kv;
  running_.set(static_cast<double>(counts.running_groups));
  waiting_.set(static_cast<double>(counts.waiting_groups));
  swapped_.set(static_cast<double>(counts.swapped_groups));
  kv_usage_.set(static_cast<double>(kv.num_blocks() - kv.num_free_blocks()) /
                static_cast<double>(kv.num_blocks()));
  if (kv.swap().num_swap_blocks() > 0) {
    swap_usage_.set(1.0 - static_cast<double>(kv.swap().num_free_swap_blocks()) /
                              static_cast<double>(kv.swap().num_swap_blocks()));
  }
  const auto add = [](Counter& counter, std::int64_t now, std::int64_t before) {
    counter.add(static_cast<double>(now - before));
  };
  add(preemptions_, counts.preemptions, seen_.preemptions);
  add(swap_preemptions_, counts.preemptions_by_swap, seen_.preemptions_by_swap);
  add(swapped_out_, counts.blocks_swapped_out, seen_.blocks_swapped_out);
  add(swapped_in_, counts.blocks_swapped_in, seen_.blocks_swapped_in);
  add(padded_, counts.padded_tokens, seen_.padded_tokens);
  seen_ = counts;
  const PrefixCacheStats cache = kv.inspection().prefix_cache_stats();
  cache_queries_.add(static_cast<double>(cache.queries - seen_cache_.queries));
  cache_hits_.add(static_cast<double>(cache.hits - seen_cache_.hits));
  external_queries_.add(static_cast<double>(cache.external_queries - seen_cache_.external_queries));
  external_hits_.add(static_cast<double>(cache.external_hits - seen_cache_.external_hits));
  seen_cache_ = cache;
  if (state.num_batched_tokens > 0) iteration_tokens_.observe(state.num_batched_tokens);
}

void EngineMetrics::on_usage(const KvUsage& usage) {
  const auto share = [](std::int64_t part, std::int64_t whole) {
    return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
  };
  slots_token_.set(share(usage.token_slots, usage.total_slots));
  slots_reserved_.set(share(usage.reserved_slots, usage.total_slots));
  slots_internal_.set(share(usage.internal_slots, usage.total_slots));
  slots_external_.set(share(usage.external_slots, usage.total_slots));
  slots_cached_.set(share(usage.cached_slots, usage.total_slots));
  saved_blocks_.set(share(usage.blocks_without_sharing - usage.blocks_in_use, usage.blocks_without_sharing));
}

void EngineMetrics::on_step(const StepReport& report) {
  if (!report.result.status.ok()) return;
  const MapStats& mapping = report.result.mapping;
  map_calls_.add(static_cast<double>(mapping.calls - mapping.calls_ahead));
  map_calls_ahead_.add(static_cast<double>(mapping.calls_ahead));
  mapped_pages_.add(static_cast<double>(mapping.pages - mapping.pages_ahead));
  mapped_pages_ahead_.add(static_cast<double>(mapping.pages_ahead));
  map_seconds_.add(mapping.seconds);
  map_seconds_ahead_.add(mapping.seconds_ahead);
  map_delayed_steps_.add(static_cast<double>(mapping.steps_delayed));
  masks_.add(static_cast<double>(report.num_masks));
  settled_rows_.add(static_cast<double>(report.result.num_settled_rows));
}

void EngineMetrics::on_outcome(const StepOutcome& outcome) {
  const ScheduledBatch& batch = outcome.report.batch;
  if (batch.empty()) return;  // the step had only tier moves
  copied_.add(static_cast<double>(batch.block_copies.size()));
  ++totals_.steps;
  totals_.usage += outcome.usage;
  totals_.blocks_copied += std::ssize(batch.block_copies);
  totals_.batched_tokens += batch.num_tokens;
  totals_.running_requests += outcome.running_requests;
}

void EngineMetrics::on_tokens(const TokenProgress& progress) {
  generation_tokens_.add(static_cast<double>(progress.num_tokens));
  totals_.generation_tokens += progress.num_tokens;
  if (progress.since_last) {
    requests_.inter_token.observe(to_seconds(*progress.since_last));
    return;
  }
  requests_.first_token.observe(to_seconds(progress.times.first_token - progress.times.arrival));
  prompt_tokens_.add(static_cast<double>(progress.request.prompt_token_ids.size()));
  totals_.prompt_tokens += std::ssize(progress.request.prompt_token_ids);
  prompt_tokens_cached_.add(progress.num_cached_tokens);
}

void EngineMetrics::on_drafts_verified(std::int32_t num_tried, std::int32_t num_accepted) {
  drafts_.add();
  draft_tokens_.add(num_tried);
  accepted_tokens_.add(num_accepted);
  for (std::size_t i = 0; i < accepted_at_.size() && std::cmp_less(i, num_accepted); ++i)
    accepted_at_[i]->add();
}

void EngineMetrics::on_ended(const EndedRequest& ended) {
  if (ended.is_prefix) return;
  const RequestTimes& times = ended.times;
  switch (ended.reason) {
    case FinishReason::stop:
      success_stop_.add();
      break;
    case FinishReason::length:
      success_length_.add();
      break;
    case FinishReason::abort:
      success_abort_.add();
      break;
    case FinishReason::error:
      success_error_.add();
      break;
  }
  requests_.latency.observe(to_seconds(ended.ended - times.arrival));
  if (times.first_scheduled != 0) requests_.queue.observe(to_seconds(times.first_scheduled - times.arrival));
  if (times.first_token != 0) {
    requests_.inference.observe(to_seconds(times.last_token - times.first_scheduled));
    requests_.prefill.observe(to_seconds(times.first_token - times.first_scheduled));
    requests_.decode.observe(to_seconds(times.last_token - times.first_token));
    if (ended.longest_output > 1) {
      requests_.per_output_token.observe(to_seconds(times.last_token - times.first_token) /
                                         static_cast<double>(ended.longest_output - 1));
    }
  }
  requests_.request_prompt_tokens.observe(static_cast<double>(ended.request.prompt_token_ids.size()));
  requests_.request_generation_tokens.observe(static_cast<double>(ended.num_output_tokens));
  requests_.max_generation_tokens.observe(static_cast<double>(ended.longest_output));
  requests_.params_n.observe(ended.request.sampling.n);
  requests_.params_max_tokens.observe(ended.request.sampling.max_tokens);
}

void EngineMetrics::on_refused(const Status& status) {
  if (status.reason() == "queue_full") refused_full_.add();
  if (status.reason() == "queue_time") refused_queue_time_.add();
  if (status.reason() == "deadline" || status.reason() == "deadline_exceeded") refused_deadline_.add();
}

}  // namespace pagoda
