#include "cli/bench/bench_batch.h"

#include <algorithm>
#include <future>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/random.h"
#include "cli/assembly/assemble.h"
#include "cli/commands/output_collector.h"

namespace pagoda {
namespace {

Request make_request(const BenchShape& shape, std::uint64_t seed, std::uint64_t number,
                     std::int32_t vocab_size) {
  const BenchDecoding& decoding = shape.decoding;
  Request request;
  request.id = RequestId{number};
  for (std::int32_t i = 0; i < shape.input_len; ++i) {
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
  sampling.max_tokens = shape.output_len;
  sampling.ignore_eos = true;
  return request;
}

}  // namespace

Result<BatchTimes> run_batch(AssembledEngine& engine, const BenchShape& shape, std::uint64_t seed,
                             std::uint64_t& next_id) {
  OutputCollector collector;
  const TimeNs start = SteadyClock().now();
  for (std::int32_t i = 0; i < shape.num_requests; ++i) {
    Request request = make_request(shape, seed, ++next_id, engine.client().limits().vocab_size);
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
  for (std::int32_t finished = 0; finished < shape.num_requests;) {
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
  }
  TimeNs all_started = start;
  for (const auto& [id, time] : first_token) all_started = std::max(all_started, time);
  // From a token of the request that finishes first until its last one: whole steps, in which every request
  // gets the same number of tokens.
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

Result<std::shared_ptr<const EngineSnapshot>> engine_snapshot(AssembledEngine& engine) {
  std::promise<Result<std::shared_ptr<const EngineSnapshot>>> taken;
  engine.client().engine(0).snapshot([&taken](auto snapshot) { taken.set_value(std::move(snapshot)); });
  return taken.get_future().get();
}

}  // namespace pagoda
