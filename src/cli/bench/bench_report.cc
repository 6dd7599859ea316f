#include "cli/bench/bench_report.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>

#include "base/plain_numbers.h"
#include "base/strings.h"
#include "cli/assembly/machine.h"

namespace pagoda {
namespace {

boost::json::object spread_json(const Spread& s) { return {{"median", s.median}, {"best", s.best}}; }

// null if there is no value.
boost::json::value spread_json(const std::optional<Spread>& s) {
  return s ? boost::json::value(spread_json(*s)) : boost::json::value(nullptr);
}

boost::json::value idle_json(const std::optional<IdleTimes::Figures>& idle) {
  if (!idle) return nullptr;
  return {{"median", 1e6 * idle->median},
          {"p99", 1e6 * idle->p99},
          {"worst", 1e6 * idle->worst},
          {"steps", idle->steps}};
}

boost::json::object account_json(const KvAccount& a) {
  return {{"token", a.token},
          {"reserved", a.reserved},
          {"internal_fragmentation", a.internal},
          {"external_fragmentation", a.external},
          {"cached", a.cached},
          {"waste_of_allocated", a.waste},
          {"blocks_saved_by_sharing", a.saved},
          {"blocks_copied", a.blocks_copied},
          {"preemptions", a.preemptions}};
}

void print_account(const KvAccount& a) {
  std::printf(
      "KV slots: %.1f%% token states, %.1f%% reserved, %.1f%% internal and %.1f%% external fragmentation; "
      "%.1f%% of the allocated wasted\n"
      "KV blocks: %.1f%% saved by sharing, %lld copied on write; %lld preemptions\n",
      a.token * 100, a.reserved * 100, a.internal * 100, a.external * 100, a.waste * 100, a.saved * 100,
      static_cast<long long>(a.blocks_copied), static_cast<long long>(a.preemptions));
}

void print_row(const char* label, const Spread& value, const char* unit) {
  std::printf("%-34s %10.1f %10.1f  %s\n", label, value.median, value.best, unit);
}

double per_step(double total, const RankSteps& ranks) {
  return total / static_cast<double>(std::max<std::int64_t>(1, ranks.steps));
}

boost::json::object ranks_json(const RankSteps& ranks, std::int32_t size) {
  return {{"ranks", size},
          {"steps", ranks.steps},
          {"step_seconds", per_step(ranks.seconds, ranks)},
          {"communication_seconds", per_step(ranks.communication_seconds, ranks)},
          {"message_bytes", per_step(static_cast<double>(ranks.message_bytes), ranks)},
          {"exchanges", per_step(static_cast<double>(ranks.exchanges), ranks)},
          {"exchanged_bytes", per_step(static_cast<double>(ranks.exchanged_bytes), ranks)}};
}

void print_ranks(const RankSteps& ranks, std::int32_t size) {
  std::printf(
      "%d ranks, a step: %.3f ms, %.1f%% of it in communication; message of %.0f bytes, %.0f exchanges of "
      "%.0f "
      "bytes\n",
      size, per_step(ranks.seconds, ranks) * 1e3,
      100 * ranks.communication_seconds / std::max(ranks.seconds, 1e-9),
      per_step(static_cast<double>(ranks.message_bytes), ranks),
      per_step(static_cast<double>(ranks.exchanges), ranks),
      static_cast<double>(ranks.exchanged_bytes) / std::max<double>(1, static_cast<double>(ranks.exchanges)));
}

}  // namespace

Spread spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values.back()};
}

KvAccount account_between(const EngineTotals& before, const EngineTotals& after) {
  const auto difference = [&](std::int64_t KvUsage::* field) {
    return static_cast<double>(after.usage.*field - before.usage.*field);
  };
  const double total = std::max(1.0, difference(&KvUsage::total_slots));
  KvAccount out;
  out.token = difference(&KvUsage::token_slots) / total;
  out.reserved = difference(&KvUsage::reserved_slots) / total;
  out.internal = difference(&KvUsage::internal_slots) / total;
  out.external = difference(&KvUsage::external_slots) / total;
  out.cached = difference(&KvUsage::cached_slots) / total;
  const double wasted = out.reserved + out.internal + out.external;
  if (wasted + out.token > 0) out.waste = wasted / (wasted + out.token);
  const double alone = difference(&KvUsage::blocks_without_sharing);
  if (alone > 0) out.saved = (alone - difference(&KvUsage::blocks_in_use)) / alone;
  out.blocks_copied = after.blocks_copied - before.blocks_copied;
  out.preemptions = after.preemptions - before.preemptions;
  return out;
}

std::string figures_json(const BenchFigures& figures) {
  boost::json::value by_ranks;
  if (figures.ranks != nullptr) by_ranks = ranks_json(*figures.ranks, figures.num_ranks);
  const boost::json::object object = {
      {"bench", figures.bench},
      {"tensor_parallel", by_ranks},
      {"model", figures.model},
      {"dtype", figures.dtype},
      {"threads", figures.threads},
      {"num_requests", figures.shape.num_requests},
      {"input_len", figures.shape.input_len},
      {"output_len", figures.shape.output_len},
      {"prefill_tokens_per_s", spread_json(figures.prefill)},
      {"decode_tokens_per_s", spread_json(figures.decode)},
      {"output_tokens_per_s", spread_json(figures.total)},
      {"device_idle_us", idle_json(figures.idle)},
      {"kv", account_json(figures.kv)},
      {"read_bandwidth", spread_json(figures.bandwidth)},
      {"decode_step_bytes", figures.step_bytes ? boost::json::value(*figures.step_bytes) : nullptr},
      {"bandwidth_share", spread_json(figures.share)},
      {"peak_resident_bytes", peak_resident_bytes()}};
  return plain_numbers(boost::json::serialize(object)) + "\n";
}

void print_figures(const BenchFigures& figures) {
  const BenchShape& shape = figures.shape;
  std::printf("%s: %d requests at once, %d tokens in, %d out, %d threads, dtype %s\n", figures.bench.c_str(),
              shape.num_requests, shape.input_len, shape.output_len, figures.threads, figures.dtype.c_str());
  std::printf("%-34s %10s %10s\n", "", "median", "best");
  print_row("prompt tokens until all started", figures.prefill, "tok/s");
  if (figures.decode) {
    print_row("decode, all running", *figures.decode, "tok/s");
  } else {
    std::printf("%-34s never: more --output-len or --max-num-batched-tokens\n", "decode, all running");
  }
  print_row("output tokens over the whole run", figures.total, "tok/s");
  if (figures.bandwidth) {
    std::printf("%-34s %10.1f %10.1f  GB/s, around the runs\n", "memory read bandwidth",
                figures.bandwidth->median / 1e9, figures.bandwidth->best / 1e9);
  }
  if (figures.share) {
    std::printf("%-34s %9.0f%% %9.0f%%  of the bandwidth around each run\n",
                "weights, K and V read by decode", figures.share->median * 100, figures.share->best * 100);
  }
  if (figures.idle)
    std::printf("device idle between decode steps: %.1f us median, %.1f p99, %.1f worst, of %lld steps\n",
                1e6 * figures.idle->median, 1e6 * figures.idle->p99, 1e6 * figures.idle->worst,
                static_cast<long long>(figures.idle->steps));
  print_account(figures.kv);
  if (figures.ranks != nullptr) print_ranks(*figures.ranks, figures.num_ranks);
}

}  // namespace pagoda
