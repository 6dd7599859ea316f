#include "cli/bench/bench_kv_managers.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <numeric>

#include "base/assign_or_return.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/plain_numbers.h"
#include "base/random.h"
#include "base/strings.h"
#include "cli/assembly/assemble.h"
#include "cli/assembly/hub_paths.h"
#include "cli/assembly/machine.h"
#include "cli/assembly/runner_options.h"
#include "cli/bench/bench_batch.h"
#include "cli/bench/kv_managers_svg.h"
#include "cli/bench/page_call_times.h"
#include "cli/commands/output_collector.h"
#include "cli/output_file.h"
#include "model_runner/local_model_runner.h"
#include "model_runner/virtual_kv_plan.h"
#include "models/read_config.h"

namespace pagoda {
namespace {

constexpr std::int64_t kDefaultKvBytes = std::int64_t{48} << 20;
constexpr std::int32_t kSequences = 8, kContext = 1024;

struct Variant {
  std::string label;
  std::function<void(EngineFlags&)> change;
};

EngineFlags with_virtual(const EngineFlags& flags) {
  EngineFlags out = flags;
  out.kv_manager = "virtual";
  return out;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// ---- the kernel ----

struct KernelCase {
  std::string label;
  KvLayout layout;
  KvStorage storage;
  std::vector<std::int32_t> table;  // block tables of all sequences, concatenated
  std::int32_t blocks_per_sequence = 0;
};

enum class BlockOrder { scattered, consecutive };

Result<KernelCase> plain_case(std::string label, KvLayout layout, std::int32_t block_size, BlockOrder order) {
  KernelCase out;
  out.label = std::move(label);
  out.layout = layout;
  out.layout.block_size = block_size;
  out.blocks_per_sequence = (kContext + block_size - 1) / block_size;
  const std::int32_t count = out.blocks_per_sequence * kSequences;
  PAGODA_ASSIGN_OR_RETURN(out.storage, KvStorage::create(out.layout, count, 0));
  out.table.resize(static_cast<std::size_t>(count));
  std::iota(out.table.begin(), out.table.end(), 0);
  if (order == BlockOrder::scattered) {  // as after a period of serving
    for (std::size_t i = out.table.size(); i > 1; --i)
      std::swap(out.table[i - 1], out.table[random_bits(1, 2, i) % i]);
  }
  return out;
}

// Pages scattered over the pool, blocks contiguous in address space.
Result<KernelCase> virtual_case(std::string label, const KvLayout& layout, std::int64_t page_bytes,
                                KvTensors tensors) {
  PAGODA_ASSIGN_OR_RETURN(auto plan, plan_virtual_kv(layout, page_bytes, tensors));
  KernelCase out;
  out.label = std::move(label);
  out.layout = plan.layout;
  out.blocks_per_sequence = (kContext + plan.layout.block_size - 1) / plan.layout.block_size;
  const std::int32_t count = out.blocks_per_sequence * kSequences;
  if (plan.num_tensors > 1) out.layout.layer_stride = plan.page_bytes * count;
  PAGODA_ASSIGN_OR_RETURN(auto storage, KvStorage::create_virtual(out.layout,
                                                                  {.num_slots = kSequences,
                                                                   .blocks_per_slot = out.blocks_per_sequence,
                                                                   .page_bytes = plan.page_bytes,
                                                                   .num_tensors = plan.num_tensors},
                                                                  count, 0));
  out.storage = std::move(storage);
  std::vector<PageMapping> mappings;
  for (std::int32_t block = 0; block < count; ++block) {
    out.table.push_back(block);
    mappings.push_back({.block = BlockId{block}, .page = BlockId{block}, .count = 1});
  }
  for (std::size_t i = mappings.size(); i > 1; --i)
    std::swap(mappings[i - 1].page, mappings[random_bits(1, 2, i) % i].page);
  PAGODA_RETURN_IF_ERROR(out.storage.mapper()->map(mappings));
  return out;
}

struct KernelTimes {
  double prefill_us = 0, decode_us = 0;  // one layer, all sequences
};

KernelTimes time_kernel(const KernelContext& context, const KernelCase& test, std::int32_t num_query_heads) {
  const KvLayout& layout = test.layout;
  const std::int64_t width = layout.head_size * (num_query_heads + 2 * layout.num_kv_heads);
  std::vector<float> rows(static_cast<std::size_t>(width) * kContext), output(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(random_uniform(3, 4, i)) - 0.5f;
  PagedAttentionArgs args;
  args.layout = layout;
  args.cache = test.storage.data();
  args.query = Buffer::of(rows.data(), width);
  args.key = args.query.at(0, layout.head_size * num_query_heads);
  args.value = args.key.at(0, layout.head_size * layout.num_kv_heads);
  args.num_query_heads = num_query_heads;
  args.scale = 1.0f / std::sqrt(static_cast<float>(layout.head_size));
  args.output = Buffer::of(output.data(), layout.head_size * num_query_heads);
  const SteadyClock clock;
  const auto run = [&](std::span<const AttentionSequence> sequences, std::int32_t layers) {
    args.sequences = sequences;
    const TimeNs start = clock.now();
    for (args.layer = 0; args.layer < layers; ++args.layer) paged_attention(context, args);
    return to_seconds(clock.now() - start) * 1e6 / layers;
  };
  KernelTimes out;
  std::vector<AttentionSequence> decode;
  std::vector<double> prefill;
  for (std::int32_t s = 0; s < kSequences; ++s) {
    const AttentionSequence sequence{.query_start = 0,
                                     .num_queries = kContext,
                                     .context_len = kContext,
                                     .block_table = test.table.data() + s * test.blocks_per_sequence};
    // Write every layer once, so that decoding reads initialised memory.
    const double us =
        run(std::span(&sequence, 1), s == 0 ? layout.num_layers : std::min(2, layout.num_layers));
    if (s > 0) prefill.push_back(us);
    decode.push_back(
        {.query_start = s, .num_queries = 1, .context_len = kContext, .block_table = sequence.block_table});
  }
  out.prefill_us = median(prefill);
  std::vector<double> times;
  for (int i = 0; i < 15; ++i) times.push_back(run(decode, layout.num_layers));
  out.decode_us = median(times);
  return out;
}

Status bench_kernel(const BenchKvManagersArgs& args, const ModelSource& source, boost::json::object& json,
                    KvManagersPlot& plot) {
  PAGODA_ASSIGN_OR_RETURN(const auto model, read_model_config(source));
  PAGODA_ASSIGN_OR_RETURN(auto layout,
                          plan_kv_layout(source, model, args.engine.dtype, args.engine.kv_cache_dtype, 16));
  if (model.decoder.layers.front().attention() == nullptr)
    return unimplemented(
        "bench kv-managers measures attention, which this model's first layer does not have");
  ThreadPool pool(num_threads(args.engine));
  const KernelContext context{.pool = &pool};
  std::printf("attention, us per layer, %d threads, %d layers of %d KV heads\n%-34s %12s %12s\n",
              num_threads(args.engine), layout.num_layers, layout.num_kv_heads, "",
              concat("prefill ", kContext).c_str(), concat("decode ", kSequences, "x", kContext).c_str());
  boost::json::array rows;
  const auto measure = [&](Result<KernelCase> made) -> Status {
    if (!made) return made.error();
    const KernelTimes times = time_kernel(context, *made, head_sizes(model.decoder).num_heads);
    std::printf("%-34s %12.1f %12.1f\n", made->label.c_str(), times.prefill_us, times.decode_us);
    std::fflush(stdout);
    rows.push_back(
        {{"manager", made->label}, {"prefill_us", times.prefill_us}, {"decode_us", times.decode_us}});
    plot.kernel.push_back({made->label, times.decode_us});
    return ok_status();
  };
  for (const std::int32_t size : {1, 4, 16, 32, 64, 128, 256})
    PAGODA_RETURN_IF_ERROR(
        measure(plain_case(concat("paged, blocks of ", size), layout, size, BlockOrder::scattered)));
  PAGODA_RETURN_IF_ERROR(measure(plain_case("reserved", layout, 16, BlockOrder::consecutive)));
  PAGODA_RETURN_IF_ERROR(
      measure(virtual_case("virtual, pages of 16 tokens", layout, 0, KvTensors::per_slot)));
  for (const std::int64_t kib : {64, 256, 2048})
    PAGODA_RETURN_IF_ERROR(measure(
        virtual_case(concat("virtual, pages of ", kib, " KiB"), layout, kib << 10, KvTensors::per_slot)));
  for (const std::int64_t kib : {4, 64})
    PAGODA_RETURN_IF_ERROR(measure(virtual_case(concat("virtual, ", kib, " KiB in each layer"), layout,
                                                kib << 10, KvTensors::per_layer)));
  json["kernel"] = std::move(rows);
  return ok_status();
}

// ---- the calls ----

Status bench_calls(boost::json::object& json) {
  std::printf("\none call, us%22s %10s %10s %10s %12s\n", "map", "replace", "map 8", "unmap", "create");
  boost::json::array rows;
  for (const std::int64_t kib : {4, 64, 360, 1024, 2048}) {
    PAGODA_ASSIGN_OR_RETURN(const auto times, time_page_calls(kib << 10));
    std::printf("pages of %5lld KiB %15.1f %10.1f %10.1f %10.1f %12.1f\n", static_cast<long long>(kib),
                times.map_us, times.replace_us, times.map8_us, times.unmap_us, times.create_us);
    rows.push_back({{"page_kib", kib},
                    {"map_us", times.map_us},
                    {"replace_us", times.replace_us},
                    {"map8_us", times.map8_us},
                    {"unmap_us", times.unmap_us},
                    {"create_us", times.create_us}});
  }
  json["calls"] = std::move(rows);
  return ok_status();
}

// ---- serving ----

std::vector<Variant> serving_variants() {
  std::vector<Variant> out;
  for (const std::int32_t size : {1, 16, 64, 256}) {
    out.push_back({concat("paged, blocks of ", size), [size](EngineFlags& f) {
                     f.kv_manager = "paged";
                     f.block_size = size;
                   }});
  }
  const auto add = [&](std::string label, auto change) {
    out.push_back({std::move(label), [change](EngineFlags& f) {
                     f = with_virtual(f);
                     change(f);
                   }});
  };
  add("virtual", [](EngineFlags&) {});
  add("virtual, no mapping ahead", [](EngineFlags& f) { f.kv_map_ahead = false; });
  add("virtual, not eager", [](EngineFlags& f) { f.kv_eager = false; });
  add("virtual, immediate reclaim", [](EngineFlags& f) { f.kv_deferred_reclaim = false; });
  add("virtual, pages created on demand", [](EngineFlags& f) { f.kv_precreate_pages = false; });
  add("virtual, one tensor per layer",
      [](EngineFlags& f) { f.kv_slicing = false, f.kv_page_size = 4 << 10; });
  add("virtual, all off", [](EngineFlags& f) {
    f.kv_map_ahead = f.kv_eager = f.kv_deferred_reclaim = f.kv_precreate_pages = f.kv_slicing = false;
    f.kv_page_size = 4 << 10;
  });
  add("virtual, pages of 2 MiB", [](EngineFlags& f) { f.kv_page_size = 2 << 20; });
  out.push_back({"reserved (Orca, max)", [](EngineFlags& f) {
                   f.scheduler = "orca";
                   f.kv_manager = "reserved";
                   f.reserve = "max";
                 }});
  return out;
}

struct Served {
  double tokens_per_s = 0, p99_ms = 0, start_s = 0;
  double token_share = 0, waste = 0;
  std::int64_t preemptions = 0;
  std::map<std::string, double> mapping;  // metric names without kv_map
};

double metric(const std::string& text, const std::string& line) {
  const std::size_t at = text.find("\n" + line);
  return at == std::string::npos ? 0 : std::strtod(text.c_str() + text.find('}', at) + 1, nullptr);
}

Result<Served> serve_once(const EngineFlags& flags, std::int32_t num_prompts) {
  const SteadyClock clock;
  const TimeNs before = clock.now();
  PAGODA_ASSIGN_OR_RETURN(auto engine, AssembledEngine::create(flags, AssembledEngine::Report::quiet));
  const TimeNs start = clock.now();
  OutputCollector collector;
  const auto vocab = static_cast<std::uint64_t>(engine->client().limits().vocab_size);
  for (std::int32_t i = 0; i < num_prompts; ++i) {
    // Mixed sizes, small ones more often: prompts of 8 to 160 tokens and answers of 8 to 96.
    const auto draw = [&](std::uint64_t stream) {
      return random_uniform(7, stream, static_cast<std::uint64_t>(i));
    };
    Request request;
    request.id = RequestId{static_cast<std::uint64_t>(i) + 1};
    request.arrival_time = start;
    const auto length = static_cast<std::uint64_t>(8 + 152 * draw(1) * draw(1));
    for (std::uint64_t t = 0; t < length; ++t)
      request.prompt_token_ids.push_back(
          static_cast<TokenId>(random_bits(9, static_cast<std::uint64_t>(i), t) % vocab));
    request.sampling.temperature = 0;
    request.sampling.ignore_eos = true;
    request.sampling.max_tokens = static_cast<std::int32_t>(8 + 88 * draw(2));
    PAGODA_RETURN_IF_ERROR(engine->client().submit(std::move(request), collector.make_sink()));
  }
  std::map<RequestId, TimeNs> last;
  std::vector<double> gaps;
  std::int64_t tokens = 0;
  TimeNs end = start;
  for (std::int32_t finished = 0; finished < num_prompts;) {
    for (const OutputCollector::Item& item : collector.take()) {
      if (!item.output.error.ok()) return item.output.error;
      std::int64_t fresh = 0;
      for (const SequenceDelta& delta : item.output.deltas)
        fresh += static_cast<std::int64_t>(delta.token_ids.size());
      if (fresh > 0) {
        const auto [entry, first] = last.try_emplace(item.output.id, item.time);
        if (!first) gaps.push_back(to_seconds(item.time - entry->second) * 1e3);
        entry->second = item.time;
      }
      tokens += fresh;
      end = std::max(end, item.time);
      finished += item.output.finished ? 1 : 0;
    }
  }
  Served out;
  out.start_s = to_seconds(start - before);
  out.tokens_per_s = static_cast<double>(tokens) / to_seconds(end - start);
  std::ranges::sort(gaps);
  if (!gaps.empty()) out.p99_ms = gaps[gaps.size() * 99 / 100];
  if (const auto snapshot = engine_snapshot(*engine)) {
    const EngineTotals& totals = (*snapshot)->totals;
    const KvUsage& usage = totals.usage;
    const auto wasted = usage.reserved_slots + usage.internal_slots + usage.external_slots;
    if (usage.total_slots > 0)
      out.token_share = static_cast<double>(usage.token_slots) / static_cast<double>(usage.total_slots);
    if (wasted + usage.token_slots > 0)
      out.waste = static_cast<double>(wasted) / static_cast<double>(wasted + usage.token_slots);
    out.preemptions = totals.preemptions;
    out.mapping["steps"] = static_cast<double>(totals.steps);
  }
  engine->stop();
  const std::string text = engine->metrics().expose("pagoda", "m=\"\"");
  for (const char* name : {"calls", "seconds"}) {
    for (const char* when : {"in_step", "ahead"})
      out.mapping[concat(name, "_", when)] =
          metric(text, concat("pagoda:kv_map_", name, "_total{m=\"\",engine=\"0\",when=\"", when, "\"}"));
  }
  out.mapping["delayed_steps"] = metric(text, "pagoda:kv_map_delayed_steps_total{m=\"\",engine=\"0\"}");
  return out;
}

Status bench_serving(const BenchKvManagersArgs& args, boost::json::object& json, KvManagersPlot& plot) {
  EngineFlags base = args.engine;
  if (base.data_parallel_size > 1)
    return invalid_argument("--data-parallel-size: this command measures one engine");
  base.kv_cache_memory_bytes = base.kv_cache_memory_bytes.value_or(kDefaultKvBytes);
  if (!base.max_model_len) base.max_model_len = 512;
  base.max_queue = std::max(base.max_queue, args.num_prompts);
  std::printf("\n%d requests at once, %lld bytes of KV\n%-30s %8s %8s %7s %7s %7s %9s %9s %8s %8s %8s\n",
              args.num_prompts, static_cast<long long>(*base.kv_cache_memory_bytes), "", "tok/s", "p99 ms",
              "preempt", "tokens", "waste", "in step", "ahead", "ms in", "delayed", "start s");
  boost::json::array rows;
  const std::vector<Variant> variants = serving_variants();
  std::map<std::string, std::vector<Served>> all;
  for (std::int32_t i = 0; i < args.num_iters; ++i) {
    for (const Variant& variant :
         variants) {  // round and round: slow changes of the machine meet all of them
      EngineFlags flags = base;
      variant.change(flags);
      auto served = serve_once(flags, args.num_prompts);
      if (!served) return served.error().annotate(variant.label);
      all[variant.label].push_back(*std::move(served));
    }
  }
  for (const Variant& variant : variants) {
    const std::vector<Served>& runs = all[variant.label];
    std::vector<double> rates, p99s;
    for (const Served& run : runs) rates.push_back(run.tokens_per_s), p99s.push_back(run.p99_ms);
    Served s = runs.front();
    s.tokens_per_s = median(rates);
    s.p99_ms = median(p99s);
    std::printf("%-30s %8.1f %8.1f %7lld %6.1f%% %6.1f%% %9.0f %9.0f %8.2f %7.1f%% %8.2f\n",
                variant.label.c_str(), s.tokens_per_s, s.p99_ms, static_cast<long long>(s.preemptions),
                100 * s.token_share, 100 * s.waste, s.mapping["calls_in_step"], s.mapping["calls_ahead"],
                1e3 * s.mapping["seconds_in_step"],
                100 * s.mapping["delayed_steps"] / std::max(1.0, s.mapping["steps"]), s.start_s);
    boost::json::object row{
        {"manager", variant.label},     {"tokens_per_s", s.tokens_per_s}, {"p99_inter_token_ms", s.p99_ms},
        {"preemptions", s.preemptions}, {"token_share", s.token_share},   {"waste_of_allocated", s.waste},
        {"start_s", s.start_s}};
    for (const auto& [name, value] : s.mapping) row["map_" + name] = value;
    rows.push_back(std::move(row));
    plot.throughput.push_back({variant.label, s.tokens_per_s});
    plot.p99.push_back({variant.label, s.p99_ms});
  }
  json["serving"] = std::move(rows);
  return ok_status();
}

}  // namespace

Status run_bench_kv_managers(const BenchKvManagersArgs& args) {
  if (args.num_prompts < 1 || args.num_iters < 1) return invalid_argument("counts must be at least 1");
  for (const std::string& each : {args.output_json, args.output_svg})
    PAGODA_RETURN_IF_ERROR(check_output(each));
  PAGODA_ASSIGN_OR_RETURN(auto path, model_path(args.engine));
  PAGODA_ASSIGN_OR_RETURN(auto source, ModelSource::open(path, hub_paths_from_environment()));
  boost::json::object json{{"bench", "kv-managers"}, {"model", path}};
  KvManagersPlot plot;
  const auto wanted = [&](const char* part) { return args.only.empty() || args.only == part; };
  if (wanted("kernel")) PAGODA_RETURN_IF_ERROR(bench_kernel(args, *source, json, plot));
  if (wanted("map")) PAGODA_RETURN_IF_ERROR(bench_calls(json));
  if (wanted("serve")) PAGODA_RETURN_IF_ERROR(bench_serving(args, json, plot));
  PAGODA_RETURN_IF_ERROR(write_output(args.output_json, plain_numbers(boost::json::serialize(json)) + "\n"));
  if (args.output_svg.empty()) return ok_status();
  return write_output(args.output_svg, kv_managers_svg(plot) + "\n");
}

}  // namespace pagoda
