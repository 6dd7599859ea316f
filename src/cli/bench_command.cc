#include "cli/bench_command.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>
#include <fstream>
#include <map>
#include <optional>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "cli/assemble.h"
#include "cli/machine.h"
#include "cli/output_collector.h"
#include "cli/progress_bar.h"
#include "cli/runner_options.h"
#include "model_runner/distributed_model_runner.h"

namespace pagoda {
namespace {

// One run of a batch: when it began, when each request got its first token, when the last token came.
struct BatchTimes {
  double prefill_seconds = 0;  // until every request has its first token
  double total_seconds = 0;
  double decode_seconds = 0;       // from then until the first is finished: all run
  std::int64_t decode_tokens = 0;  // generated in that time; 0: there was none
  std::int64_t output_tokens = 0;
};

Request make_request(std::uint64_t seed, std::uint64_t number, std::int32_t input_len,
                     std::int32_t output_len, const BenchDecoding& decoding, std::int32_t vocab_size) {
  Request request;
  request.id = RequestId{number};
  for (std::int32_t i = 0; i < input_len; ++i) {
    const std::uint64_t bits =
        random_bits(seed, i < decoding.prefix_len ? 0 : number, static_cast<std::uint64_t>(i));
    request.prompt_token_ids.push_back(static_cast<TokenId>(bits % static_cast<std::uint64_t>(vocab_size)));
  }
  SamplingParams& sampling = request.sampling;
  sampling.n = decoding.n;
  sampling.best_of = std::max(decoding.n, decoding.best_of);
  sampling.use_beam_search = decoding.beam_width > 0;
  sampling.beam_width = decoding.beam_width;
  sampling.temperature = sampling.best_of > 1 && !sampling.use_beam_search ? 1 : 0;
  sampling.seed = number;
  request.sampling.max_tokens = output_len;
  request.sampling.ignore_eos = true;
  return request;
}

// Submits `count` requests at once and waits for all.
Result<BatchTimes> run_batch(AssembledEngine& engine, std::uint64_t& next_id, std::uint64_t seed,
                             std::int32_t count, std::int32_t input_len, std::int32_t output_len,
                             const BenchDecoding& decoding, ProgressBar* bar) {
  OutputCollector collector;
  const TimeNs start = SteadyClock().now();
  for (std::int32_t i = 0; i < count; ++i) {
    Request request =
        make_request(seed, ++next_id, input_len, output_len, decoding, engine.client().limits().vocab_size);
    request.arrival_time = start;
    PAGODA_RETURN_IF_ERROR(engine.client().submit(std::move(request), collector.make_sink()));
  }
  BatchTimes times;
  std::map<RequestId, TimeNs> first_token;
  struct Arrival {
    RequestId id;
    TimeNs time;
    std::int64_t tokens;
  };
  TimeNs last = start;
  std::vector<Arrival> arrivals;
  std::optional<Arrival> first_finished;
  for (std::int32_t finished = 0; finished < count;) {
    for (const OutputCollector::Item& item : collector.take()) {
      if (!item.output.error.ok()) return item.output.error;
      std::int64_t tokens = 0;
      for (const SequenceDelta& delta : item.output.deltas)
        tokens += static_cast<std::int64_t>(delta.token_ids.size());
      if (tokens > 0) {
        first_token.emplace(item.output.id, item.time);
        arrivals.push_back({item.output.id, item.time, tokens});
      }
      times.output_tokens += tokens;
      last = std::max(last, item.time);
      if (item.output.finished && finished++ == 0) first_finished = {item.output.id, item.time, tokens};
    }
    if (bar != nullptr) bar->update(times.output_tokens);
  }
  TimeNs all_started = start;
  for (const auto& [id, time] : first_token) all_started = std::max(all_started, time);
  // From one token of the request that finishes first to its last: whole steps, in which every request gets
  // as many tokens.
  TimeNs begin = all_started;
  for (const Arrival& arrival : arrivals) {
    if (arrival.id == first_finished->id && arrival.time <= all_started) begin = arrival.time;
  }
  for (const Arrival& arrival : arrivals) {
    if (arrival.time > begin && arrival.time <= first_finished->time) times.decode_tokens += arrival.tokens;
  }
  times.prefill_seconds = to_seconds(all_started - start);
  times.total_seconds = to_seconds(last - start);
  times.decode_seconds = to_seconds(first_finished->time - begin);
  if (first_finished->time <= all_started) times.decode_tokens = 0;
  return times;
}

struct Spread {
  double median = 0, best = 0;  // best: the largest
};

Spread spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values.back()};
}

boost::json::object spread_json(const Spread& s) { return {{"median", s.median}, {"best", s.best}}; }

Status write_json(const std::string& path, const boost::json::object& object) {
  const std::string text = boost::json::serialize(object) + "\n";
  if (path == "-") {
    std::fputs(text.c_str(), stdout);
    return ok_status();
  }
  std::ofstream file(path);
  file << text;
  file.close();
  return file ? ok_status() : invalid_argument(concat("cannot write ", path));
}

void print_row(const char* label, const Spread& value, const char* unit) {
  std::printf("%-34s %10.1f %10.1f  %s\n", label, value.median, value.best, unit);
}

struct BenchShape {
  std::int32_t num_requests, input_len, output_len, warmup, iterations;
  BenchDecoding decoding;
};

// The shares of the paper's Fig. 2 and Fig. 15 over a stretch of time.
struct Account {
  double token = 0, reserved = 0, internal = 0, external = 0, cached = 0;  // of all slots
  double waste = 0;                                                        // of the allocated ones
  double saved = 0;                                                        // blocks, by sharing
  std::int64_t blocks_copied = 0, preemptions = 0;
};

Account account_between(const EngineTotals& before, const EngineTotals& after) {
  const auto difference = [&](std::int64_t KvUsage::* field) {
    return static_cast<double>(after.usage.*field - before.usage.*field);
  };
  const double total = std::max(1.0, difference(&KvUsage::total_slots));
  Account out;
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

boost::json::object account_json(const Account& a) {
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

void print_account(const Account& a) {
  std::printf(
      "KV slots: %.1f%% token states, %.1f%% reserved, %.1f%% internal and %.1f%% external fragmentation; "
      "%.1f%% of the allocated wasted\n"
      "KV blocks: %.1f%% saved by sharing, %lld copied on write; %lld preemptions\n",
      a.token * 100, a.reserved * 100, a.internal * 100, a.external * 100, a.waste * 100, a.saved * 100,
      static_cast<long long>(a.blocks_copied), static_cast<long long>(a.preemptions));
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
          {"sums", per_step(static_cast<double>(ranks.sums), ranks)},
          {"sum_bytes", per_step(static_cast<double>(ranks.sum_bytes), ranks)}};
}

void print_ranks(const RankSteps& ranks, std::int32_t size) {
  std::printf(
      "%d ranks, a step: %.3f ms, %.1f%% of it in communication; message of %.0f bytes, %.0f sums of %.0f "
      "bytes\n",
      size, per_step(ranks.seconds, ranks) * 1e3,
      100 * ranks.communication_seconds / std::max(ranks.seconds, 1e-9),
      per_step(static_cast<double>(ranks.message_bytes), ranks),
      per_step(static_cast<double>(ranks.sums), ranks),
      static_cast<double>(ranks.sum_bytes) / std::max<double>(1, static_cast<double>(ranks.sums)));
}

// That a decode step of all requests streams, halfway through: weights once, and each one's keys and values.
double bytes_of_step(const MemoryTable& memory, const BenchShape& shape) {
  const double tokens = shape.num_requests * (shape.input_len + shape.output_len / 2.0);
  return static_cast<double>(memory.weight_bytes) + tokens * static_cast<double>(memory.kv_bytes_per_token);
}

Status run_bench(const char* name, const EngineFlags& given, const BenchShape& shape,
                 const std::string& output_json) {
  if (shape.input_len < 1 || shape.output_len < 1 || shape.num_requests < 1 || shape.iterations < 1)
    return invalid_argument("lengths and counts must be at least 1");
  if (shape.decoding.best_of > 0 && shape.decoding.best_of < shape.decoding.n)
    return invalid_argument("--best-of must be at least --n");
  EngineFlags flags = given;
  flags.max_queue = std::max(flags.max_queue, shape.num_requests);
  auto engine = AssembledEngine::create(flags, AssembledEngine::Report::quiet);
  if (!engine) return engine.error();

  ThreadPool probe_pool(num_threads(flags));
  ReadProbe probe(probe_pool);
  const double step_bytes = bytes_of_step((*engine)->memory(), shape);
  std::uint64_t next_id = 0;
  std::vector<double> prefill, decode, total, bandwidth, share;
  EngineTotals totals_before;
  ProgressBar bar(concat("bench ", name),
                  std::int64_t{shape.num_requests} * shape.output_len * shape.iterations, "tokens");
  for (std::int32_t i = -shape.warmup; i < shape.iterations; ++i) {
    if (i == 0) {
      bandwidth.push_back(probe.bytes_per_second());
      if (auto snapshot = (*engine)->client().debug_snapshot()) totals_before = snapshot->totals;
    }
    // Fresh prompts every time, so that nothing comes from the prefix cache.
    auto times = run_batch(**engine, next_id, flags.seed + static_cast<std::uint64_t>(i + 1000),
                           shape.num_requests, shape.input_len, shape.output_len, shape.decoding, nullptr);
    if (!times) return times.error();
    if (i < 0) continue;
    prefill.push_back(double(shape.num_requests) * shape.input_len / times->prefill_seconds);
    bandwidth.push_back(probe.bytes_per_second());
    if (times->decode_tokens > 0) {
      decode.push_back(double(times->decode_tokens) / times->decode_seconds);
      // Memory that others share is as fast as it is this very second.
      const double around = (bandwidth.back() + bandwidth.end()[-2]) / 2;
      if (around > 0) share.push_back(decode.back() / shape.num_requests * step_bytes / around);
    }
    total.push_back(double(times->output_tokens) / times->total_seconds);
    bar.update(std::int64_t{shape.num_requests} * shape.output_len * (i + 1));
  }
  const auto snapshot = (*engine)->client().debug_snapshot();
  if (!snapshot) return snapshot.error();
  const Account account = account_between(totals_before, snapshot->totals);
  (*engine)->stop();

  const Spread prefill_rate = spread(prefill);
  const Spread total_rate = spread(total);
  const bool decoded = !decode.empty();  // else the first were through before the last had begun
  const Spread decode_rate = decoded ? spread(decode) : Spread{};
  const bool shared = !share.empty();
  const Spread bandwidth_rate = spread(bandwidth), bandwidth_share = shared ? spread(share) : Spread{};
  const RankSteps* ranks = (*engine)->rank_steps();
  if (!output_json.empty()) {
    boost::json::value by_ranks, decode_json, share_json;  // null where there are none
    if (ranks != nullptr) by_ranks = ranks_json(*ranks, flags.tensor_parallel_size);
    if (decoded) decode_json = spread_json(decode_rate);
    if (shared) share_json = spread_json(bandwidth_share);
    PAGODA_RETURN_IF_ERROR(write_json(output_json, {{"bench", name},
                                                    {"tensor_parallel", by_ranks},
                                                    {"model", (*engine)->model_name()},
                                                    {"dtype", flags.dtype},
                                                    {"threads", (*engine)->num_threads()},
                                                    {"num_requests", shape.num_requests},
                                                    {"input_len", shape.input_len},
                                                    {"output_len", shape.output_len},
                                                    {"prefill_tokens_per_s", spread_json(prefill_rate)},
                                                    {"decode_tokens_per_s", decode_json},
                                                    {"output_tokens_per_s", spread_json(total_rate)},
                                                    {"kv", account_json(account)},
                                                    {"read_bandwidth", spread_json(bandwidth_rate)},
                                                    {"bandwidth_share", share_json},
                                                    {"peak_resident_bytes", peak_resident_bytes()}}));
    if (output_json == "-") return ok_status();
  }
  std::printf("%s: %d requests at once, %d tokens in, %d out, %d threads, dtype %s\n", name,
              shape.num_requests, shape.input_len, shape.output_len, (*engine)->num_threads(),
              flags.dtype.c_str());
  std::printf("%-34s %10s %10s\n", "", "median", "best");
  print_row("prompt tokens until all started", prefill_rate, "tok/s");
  if (decoded) {
    print_row("decode, all running", decode_rate, "tok/s");
  } else {
    std::printf("%-34s never: more --output-len or --max-num-batched-tokens\n", "decode, all running");
  }
  print_row("output tokens over the whole run", total_rate, "tok/s");
  std::printf("%-34s %10.1f %10.1f  GB/s, around the runs\n", "memory read bandwidth",
              bandwidth_rate.median / 1e9, bandwidth_rate.best / 1e9);
  if (shared) {
    std::printf("%-34s %9.0f%% %9.0f%%  of the bandwidth around each run\n",
                "weights, K and V read by decode", bandwidth_share.median * 100, bandwidth_share.best * 100);
  }
  print_account(account);
  if (ranks != nullptr) print_ranks(*ranks, flags.tensor_parallel_size);
  return ok_status();
}

}  // namespace

Status run_bench_latency(const BenchLatencyArgs& args) {
  return run_bench("latency", args.engine,
                   {args.batch_size, args.input_len, args.output_len, args.num_iters_warmup, args.num_iters,
                    args.decoding},
                   args.output_json);
}

Status run_bench_throughput(const BenchThroughputArgs& args) {
  return run_bench("throughput", args.engine,
                   {args.num_prompts, args.input_len, args.output_len, 0, args.num_iters, args.decoding},
                   args.output_json);
}

}  // namespace pagoda
