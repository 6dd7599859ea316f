#include "sim/summary_text.h"

#include <boost/json.hpp>

#include "base/plain_numbers.h"
#include "base/strings.h"

namespace pagoda {
namespace {

double per_second(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

std::string row(const std::string& label, const std::string& value) {
  return concat(padded(label, 36), value, "\n");
}

std::string latency_row(const std::string& label, const LatencySketch& sketch, double scale, int digits) {
  const LatencyStatistics s = sketch.statistics();
  std::string out = padded(label, 28);
  for (const double value : {s.mean, s.p50, s.p90, s.p99, s.max}) {
    const std::string text = fixed(value * scale, digits);
    out += std::string(text.size() < 12 ? 12 - text.size() : 1, ' ') + text;
  }
  return out + "\n";
}

std::string percent(double share) { return fixed(100 * share, 1) + " %"; }

boost::json::object latency_json(const LatencySketch& sketch) {
  const LatencyStatistics s = sketch.statistics();
  return {{"count", s.count}, {"mean", s.mean}, {"std", s.standard_deviation},
          {"p50", s.p50},     {"p90", s.p90},   {"p95", s.p95},
          {"p99", s.p99},     {"max", s.max}};
}

}  // namespace

std::string summary_table(const SimulationSummary& s) {
  std::string out;
  out += row("requests", concat(s.arrived, " arrived, ", s.completed, " completed, ", s.aborted, " aborted, ",
                                s.refused, " refused, ", s.failed, " failed, ", s.unfinished, " unfinished"));
  out += row("simulated time",
             concat(fixed(s.duration_s, 1), " s; engines busy ",
                    percent(per_second(s.busy_s, s.duration_s * static_cast<double>(std::max<std::size_t>(
                                                                    1, s.requests_of_replica.size())))),
                    ", ", s.num_steps, " steps"));
  out +=
      row("throughput",
          concat(fixed(per_second(static_cast<double>(s.completed), s.duration_s), 2), " req/s, ",
                 fixed(per_second(static_cast<double>(s.output_tokens), s.duration_s), 1), " output tok/s"));
  out += row("batched requests, mean", concat(fixed(s.requests_by_step, 2), " (", fixed(s.batch_by_step, 2),
                                              " sequences); waiting ", fixed(s.mean_waiting, 1)));
  out += row("KV cache", concat("in use ", percent(s.kv_in_use_share), ": tokens ", percent(s.kv_token_share),
                                ", reserved ", percent(s.kv_reserved_share), ", internal ",
                                percent(s.kv_internal_share), ", external ", percent(s.kv_external_share)));
  out += row("blocks saved by sharing", percent(s.shared_block_share));
  out += row("preemptions", concat(s.preemptions, ", ", s.preemptions_by_swap, " by swapping (",
                                   s.blocks_swapped_out, " blocks out, ", s.blocks_swapped_in, " in)"));
  if (s.prefix_queries > 0)
    out +=
        row("prefix cache hits",
            percent(per_second(static_cast<double>(s.prefix_hits), static_cast<double>(s.prefix_queries))));
  if (s.external_queries > 0)
    out += row("offloaded cache hits", percent(per_second(static_cast<double>(s.external_hits),
                                                          static_cast<double>(s.external_queries))));
  if (s.mapping.calls > 0)
    out += row("pages mapped",
               concat(s.mapping.pages, " in ", s.mapping.calls, " calls, ", s.mapping.calls_ahead, " ahead; ",
                      fixed(s.mapping.seconds, 3), " s in ", s.mapping.steps_delayed, " steps' way, ",
                      fixed(s.mapping.seconds_ahead, 3), " s beside"));
  out += padded("", 28);
  for (const char* name : {"mean", "p50", "p90", "p99", "max"})
    out += std::string(12 - std::char_traits<char>::length(name), ' ') + name;
  out += "\n";
  out += latency_row("normalized latency (s/tok)", s.normalized_latency, 1, 4);
  out += latency_row("time to first token (ms)", s.ttft, 1e3, 1);
  out += latency_row("time per output token (ms)", s.tpot, 1e3, 2);
  out += latency_row("inter-token latency (ms)", s.inter_token, 1e3, 2);
  out += latency_row("end-to-end latency (s)", s.latency, 1, 3);
  return out;
}

std::string summary_json(const SimulationSummary& s, const SimulationOptions& options) {
  boost::json::object config = {{"cost_model", options.cost.name},
                                {"scheduler", options.modes.scheduler},
                                {"kv_manager", options.modes.kv_manager},
                                {"reserve", options.modes.reserve},
                                {"num_blocks", options.num_blocks},
                                {"num_swap_blocks", options.num_swap_blocks},
                                {"num_offload_blocks", options.tiers.num_blocks},
                                {"block_size", options.engine.block_size},
                                {"max_model_len", options.engine.max_model_len},
                                {"max_num_seqs", options.engine.max_num_seqs},
                                {"max_num_batched_tokens", options.engine.max_num_batched_tokens},
                                {"enable_chunked_prefill", options.engine.enable_chunked_prefill},
                                {"enable_prefix_caching", options.engine.enable_prefix_caching},
                                {"replicas", options.replicas},
                                {"seed", options.seed}};
  boost::json::array replicas;
  for (const std::int64_t count : s.requests_of_replica) replicas.push_back(count);
  const boost::json::object out = {
      {"config", std::move(config)},
      {"arrived", s.arrived},
      {"completed", s.completed},
      {"aborted", s.aborted},
      {"refused", s.refused},
      {"failed", s.failed},
      {"unfinished", s.unfinished},
      {"last_arrival_s", s.last_arrival_s},
      {"open_at_last_arrival", s.open_at_last_arrival},
      {"duration_s", s.duration_s},
      {"busy_s", s.busy_s},
      {"num_steps", s.num_steps},
      {"prompt_tokens", s.prompt_tokens},
      {"cached_tokens", s.cached_tokens},
      {"output_tokens", s.output_tokens},
      {"computed_tokens", s.computed_tokens},
      {"request_throughput", per_second(static_cast<double>(s.completed), s.duration_s)},
      {"output_throughput", per_second(static_cast<double>(s.output_tokens), s.duration_s)},
      {"batched_requests", {{"by_step", s.requests_by_step}, {"by_time", s.requests_by_time}}},
      {"batched_sequences", {{"by_step", s.batch_by_step}, {"by_time", s.batch_by_time}}},
      {"mean_waiting", s.mean_waiting},
      {"kv",
       {{"in_use", s.kv_in_use_share},
        {"token", s.kv_token_share},
        {"reserved", s.kv_reserved_share},
        {"internal", s.kv_internal_share},
        {"external", s.kv_external_share},
        {"saved_by_sharing", s.shared_block_share}}},
      {"preemptions", s.preemptions},
      {"preemptions_by_swap", s.preemptions_by_swap},
      {"blocks_swapped_out", s.blocks_swapped_out},
      {"blocks_swapped_in", s.blocks_swapped_in},
      {"prefix_cache", {{"queries", s.prefix_queries}, {"hits", s.prefix_hits}}},
      {"external_prefix_cache", {{"queries", s.external_queries}, {"hits", s.external_hits}}},
      {"page_mapping",
       {{"calls", s.mapping.calls},
        {"calls_ahead", s.mapping.calls_ahead},
        {"pages", s.mapping.pages},
        {"in_step_s", s.mapping.seconds},
        {"ahead_s", s.mapping.seconds_ahead},
        {"steps_delayed", s.mapping.steps_delayed}}},
      {"requests_of_replica", std::move(replicas)},
      {"normalized_latency_s", latency_json(s.normalized_latency)},
      {"ttft_s", latency_json(s.ttft)},
      {"tpot_s", latency_json(s.tpot)},
      {"itl_s", latency_json(s.inter_token)},
      {"e2e_s", latency_json(s.latency)}};
  return plain_numbers(boost::json::serialize(out)) + "\n";
}

std::string burst_warning(const SimulationSummary& s) {
  constexpr std::int64_t kFew = 20;
  constexpr double kShare = 0.2;  // a steady state stays below this share if the run is long enough
  // A workload whose requests all arrive at once is a burst on purpose.
  if (s.last_arrival_s <= 0 || s.arrived < kFew ||
      static_cast<double>(s.open_at_last_arrival) < kShare * static_cast<double>(s.arrived))
    return {};
  return concat(s.open_at_last_arrival, " of ", s.arrived,
                " requests had not ended when the last one arrived, after ", fixed(s.last_arrival_s, 1),
                " s: these are latencies of a burst, not of a steady state. ",
                fixed(per_second(static_cast<double>(s.arrived), s.last_arrival_s), 2),
                " req/s arrived, and ", fixed(per_second(static_cast<double>(s.completed), s.duration_s), 2),
                " were served; a longer run shows whether the queue ends");
}

std::string outcome_csv_header() {
  return "request,replica,arrival_s,prompt_tokens,cached_tokens,sequences,output_tokens,first_token_s,"
         "finish_s,normalized_latency_s,finish_reason\n";
}

std::string outcome_csv_row(const SimulatedOutcome& o) {
  return concat(o.number, ',', o.replica, ',', fixed(o.arrival_s, 6), ',', o.prompt_tokens, ',',
                o.cached_tokens, ',', o.num_sequences, ',', o.output_tokens, ',', fixed(o.first_token_s, 6),
                ',', fixed(o.finish_s, 6), ',', fixed(o.normalized_latency_s(), 6), ',', o.reason, '\n');
}

}  // namespace pagoda
