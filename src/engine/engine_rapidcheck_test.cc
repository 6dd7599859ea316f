// Goal: under every scheduler, manager and way of preemption, with pools and swap spaces of a few blocks,
// what a script of arrivals, forks, aborts and prefixes leaves behind after each step agrees with a block
// manager so naive that it needs no test: sequences that hold blocks, counted. And every answer is the one
// that the request would get alone. Method: RapidCheck draws the scripts, and makes those that fail smaller.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <set>

#include "engine/beam_reference.h"
#include "engine/engine_test_support.h"

namespace pagoda {
namespace {

using fake::Collector;
using fake::Mode;
using fake::Options;
using fake::Rig;

constexpr int kNever = 1000;

struct Arrival {
  int at = 0, abort_at = kNever;         // steps
  bool abort_one = false;                // a choice of it, not all
  bool abort_swapped = false;            // once it is swapped out
  int shared = 0, own = 1;               // prompt tokens
  int max_tokens = 1, n = 1, extra = 0;  // best_of = n + extra
  int decoding = 0;                      // 0 greedy, 1 sampled, 2 beams, 3 diverse beams
  int priority = 0;
  int adapter = 0;
  bool ignore_eos = true;
};

struct PrefixEvent {
  int at = 0, name = 0, length = 1;
  bool drop = false;
};

struct Script {
  int mode = 0, reservation = 0, preemption = 0;
  int block_size = 4, num_blocks = 12, num_swap_blocks = 0, max_num_seqs = 8, budget = 16;
  bool caching = true, chunked = true;
  SchedulingPolicy policy = SchedulingPolicy::fcfs;
  std::vector<KvGroup> groups;  // mode 0
  bool virtual_kv = false;      // with groups
  int front_batch = 1, eager = 0;
  bool deferred = true, ahead = true;
  bool async = false;
  std::vector<Arrival> arrivals;
  std::vector<PrefixEvent> prefixes;
};

std::ostream& operator<<(std::ostream& out, const Arrival& a) {
  return out << "{at " << a.at << ", abort at " << a.abort_at << (a.abort_one ? " (one)" : "")
             << (a.abort_swapped ? ", abort when swapped" : "") << ", prompt " << a.shared << "+" << a.own
             << ", max_tokens " << a.max_tokens << ", n " << a.n << "+" << a.extra << ", decoding "
             << a.decoding << ", priority " << a.priority << ", adapter " << a.adapter
             << (a.ignore_eos ? "" : ", eos") << "}";
}
std::ostream& operator<<(std::ostream& out, const PrefixEvent& p) {
  return out << "{at " << p.at << (p.drop ? ", drop " : ", add ") << p.name << " of " << p.length << "}";
}

// From the whole range at once: small scripts too are to meet every mode.
int between(int low, int high) { return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(low, high + 1)); }
int below(int limit) { return between(0, limit - 1); }

// Layers that see everything and layers with windows, each kind in pages of its own number.
void draw_groups(Script& out) {
  const auto row = [&](KvKind kind, int window, int pages) {
    return KvGroup{.kind = kind, .window = window, .tokens_per_row = out.block_size, .pages_per_row = pages};
  };
  if (below(4) != 0) out.groups.push_back(row(KvKind::full, 0, between(1, 2)));
  for (int windows = out.groups.empty() ? 1 : between(1, 2); windows > 0; --windows)
    out.groups.push_back(row(KvKind::window, between(2, 12), between(1, 3)));
  out.virtual_kv = below(2) == 0;
  if (!out.virtual_kv && below(2) == 0) out.groups.push_back(row(KvKind::state, 0, between(1, 3)));
  out.front_batch = between(1, 8);
  out.eager = below(2);
  out.deferred = below(3) != 0;
  out.ahead = below(3) != 0;
  int pages = 0;
  for (const KvGroup& group : out.groups) pages += group.pages_per_row;
  out.num_blocks *= pages;
}

Script draw_script(bool grouped) {
  Script out;
  out.mode = grouped || below(5) < 3 ? 0 : between(1, 2);
  out.reservation = below(3);
  out.preemption = below(static_cast<int>(std::size(kPreemptionPolicies)));
  out.block_size = between(1, 6);
  out.num_blocks = 40 / out.block_size + between(1, 8);
  if (grouped) draw_groups(out);
  out.num_swap_blocks = below(4) == 0 ? 0 : between(1, out.num_blocks);
  out.max_num_seqs = between(1, 10);
  out.chunked = below(4) != 0;
  out.budget = out.chunked ? between(1, 40) : 40;
  out.caching = below(2) == 0;
  out.async = below(2) == 0;
  if (out.mode == 0) out.policy = static_cast<SchedulingPolicy>(std::max(0, between(-2, 2)));
  const auto arrival = rc::gen::exec([] {
    Arrival a;
    a.at = below(30);
    a.abort_at = below(4) == 0 ? a.at + below(20) : kNever;
    a.abort_one = below(2) == 0;
    a.abort_swapped = below(4) == 0;
    a.shared = below(10);
    a.own = between(1, 6);
    a.max_tokens = between(1, 20);
    a.n = below(2) == 0 ? 1 : between(1, 5);
    a.extra = below(3) == 0 ? below(3) : 0;
    a.decoding = below(4);
    a.priority = below(3);
    a.adapter = std::max(0, between(-2, 2));
    a.ignore_eos = below(3) != 0;
    return a;
  });
  out.arrivals = *rc::gen::container<std::vector<Arrival>>(arrival);
  const auto event = rc::gen::exec([] {
    return PrefixEvent{.at = below(40), .name = below(2), .length = between(1, 10), .drop = below(3) == 0};
  });
  if (out.mode == 0) out.prefixes = *rc::gen::container<std::vector<PrefixEvent>>(event);
  return out;
}

Options options_of(const Script& script) {
  Options out;
  out.mode = static_cast<Mode>(script.mode);
  out.reservation = static_cast<Reservation>(script.reservation);
  out.num_blocks = script.num_blocks * (script.mode == 0 ? 1 : 4);  // whole regions for whole gangs
  out.num_swap_blocks = script.mode == 0 ? script.num_swap_blocks : 0;
  if (!script.groups.empty()) {
    out.groups = script.groups;
    out.virtual_kv = script.virtual_kv;
    out.slots = {.deferred_reclaim = script.deferred,
                 .map_ahead = script.ahead,
                 .num_eager_blocks = script.eager,
                 .front_batch = script.front_batch};
  }
  out.engine.max_model_len = 40;
  out.engine.block_size = script.block_size;
  out.engine.max_num_seqs = script.max_num_seqs;
  out.engine.max_num_batched_tokens = script.budget;
  out.engine.enable_chunked_prefill = script.chunked;
  out.engine.enable_prefix_caching = script.caching;
  out.engine.async_scheduling = script.async;
  out.engine.scheduling_policy = script.policy;
  out.engine.preemption_mode = static_cast<PreemptionMode>(script.preemption);
  out.engine.preemption_costs = {.per_block_copied = 1, .per_token_recomputed = 1};
  return out;
}

Request request_from(const Arrival& arrival, std::uint64_t id) {
  std::vector<TokenId> prompt;
  for (int i = 0; i < arrival.shared; ++i) prompt.push_back(static_cast<TokenId>(10 + i));
  for (int i = 0; i < arrival.own; ++i)
    prompt.push_back(static_cast<TokenId>(1 + (static_cast<int>(id) + i) % 3));
  Request request = fake::make_request(id, std::move(prompt), arrival.max_tokens);
  SamplingParams& sampling = request.sampling;
  sampling.n = arrival.n;
  sampling.best_of = arrival.n + arrival.extra;
  sampling.temperature = arrival.decoding == 1 ? 1 : 0;
  sampling.seed = id;
  sampling.ignore_eos = arrival.ignore_eos;
  sampling.use_beam_search = arrival.decoding >= 2;
  if (arrival.decoding == 3 && sampling.width() % 2 == 0) {
    sampling.num_beam_groups = 2;
    sampling.diversity_penalty = 2;
  }
  request.priority = arrival.priority;
  request.adapter = fake::adapter(arrival.adapter);
  request.tenant = arrival.priority == 0 ? "few" : "many";
  request.weight = 1 + static_cast<int>(id % 3);
  return request;
}

// The naive block manager: who holds what, counted from the sequences' tables alone.
void expect_agrees_with_tables(const Rig& rig, const Options& options) {
  if (rig.core->steps().num_in_flight() > 0) return;  // an ended request may still hold blocks
  const EngineSnapshot snapshot = rig.core->snapshot(SnapshotDetail::full);
  std::map<BlockId, std::int32_t> holders;
  std::map<BlockId, std::int32_t> told;
  for (const RequestSnapshot& request : snapshot.requests) {
    std::set<SequenceState> states;
    for (const SequenceSnapshot& sequence : snapshot.sequences_of(request)) {
      const auto blocks = snapshot.blocks_of(sequence);
      states.insert(sequence.state);
      const auto size = static_cast<std::size_t>(options.engine.block_size);
      if (!options.groups) {
        EXPECT_GE(blocks.size() * size, sequence.state == SequenceState::resident
                                            ? static_cast<std::size_t>(sequence.num_computed_tokens)
                                            : 0u);
      }
      if (sequence.state == SequenceState::parked) EXPECT_EQ(sequence.num_computed_tokens, 0);
      std::set<BlockId> own;
      for (std::size_t i = 0; i < blocks.size(); ++i) {
        EXPECT_TRUE(own.insert(blocks[i]).second) << "a block twice in one table";
        ++holders[blocks[i]];
        told[blocks[i]] = snapshot.ref_counts_of(sequence)[i];
      }
    }
    EXPECT_FALSE(states.contains(SequenceState::resident) && states.contains(SequenceState::swapped))
        << "a gang is swapped whole";
  }
  std::int64_t more = 0;  // blocks held by a prefix too
  for (const auto& [block, count] : holders) {
    EXPECT_TRUE(index(block) >= 0 && index(block) < options.num_blocks);
    EXPECT_GE(told.at(block), count);
    more += told.at(block) > count ? 1 : 0;
    if (options.mode != Mode::vllm) EXPECT_EQ(count, 1) << "regions share nothing";
  }
  const std::int64_t pinned = rig.core->kv().sharing().num_pinned_blocks();
  EXPECT_LE(more, pinned);
  if (options.mode == Mode::vllm) {
    EXPECT_EQ(snapshot.num_free_blocks,
              options.num_blocks - static_cast<std::int64_t>(holders.size()) - pinned + more);
    EXPECT_EQ(snapshot.usage.blocks_in_use, options.num_blocks - snapshot.num_free_blocks);
  } else {
    EXPECT_LE(snapshot.num_free_blocks, options.num_blocks - static_cast<std::int64_t>(holders.size()));
  }
  const KvUsage& usage = snapshot.usage;
  EXPECT_LE(usage.token_slots + usage.reserved_slots + usage.internal_slots + usage.external_slots +
                usage.cached_slots,
            usage.total_slots);
}

struct Seen {
  std::int64_t requests = 0, refused = 0, preemptions = 0, swaps = 0, swap_full = 0, aborted_swapped = 0,
               prefixes = 0, beams = 0, copies = 0;
  std::array<std::int64_t, 3> by_mode{};
};

void run_script(const Script& script, Seen& seen) {
  const Options options = options_of(script);
  Rig rig(options);
  std::vector<Request> requests;
  std::vector<std::shared_ptr<Collector>> sinks, prefix_sinks;
  std::set<std::size_t> disturbed;
  ++seen.by_mode[static_cast<std::size_t>(script.mode)];
  for (std::size_t i = 0; i < script.arrivals.size(); ++i) {
    requests.push_back(request_from(script.arrivals[i], i + 1));
    sinks.push_back(nullptr);
  }
  bool more = true;
  for (int step = 0; more || !rig.core->idle(); ++step) {
    ASSERT_LT(step, 3000) << "no progress";
    more = step < 60;
    std::vector<RequestId> swapped_out;
    for (const RequestSnapshot& request : rig.core->snapshot(SnapshotDetail::lean).requests)
      if (request.state == GroupState::swapped) swapped_out.push_back(request.id);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const Arrival& arrival = script.arrivals[i];
      if (arrival.at == step) {
        auto sink = std::make_shared<Collector>();
        ++seen.requests;
        seen.beams += requests[i].sampling.use_beam_search ? 1 : 0;
        if (rig.core->submit(requests[i], sink).ok())
          sinks[i] = sink;
        else
          ++seen.refused;
      }
      if (sinks[i] == nullptr || sinks[i]->finished) continue;
      const bool is_swapped =
          std::ranges::any_of(swapped_out, [&](RequestId id) { return id == requests[i].id; });
      if (arrival.abort_at != step && !(arrival.abort_swapped && is_swapped)) continue;
      const std::int64_t swapped = rig.core->scheduler().counts().swapped_groups;
      if (arrival.abort_one)
        rig.core->abort_sequence(requests[i].id, 0);
      else
        rig.core->abort(requests[i].id);
      seen.aborted_swapped += rig.core->scheduler().counts().swapped_groups < swapped ? 1 : 0;
      disturbed.insert(i);
      expect_agrees_with_tables(rig, options);
    }
    for (const PrefixEvent& event : script.prefixes) {
      if (event.at != step) continue;
      const std::string name = concat("p", event.name);
      if (event.drop) {
        (void)rig.core->prefixes().drop(name);
        continue;
      }
      std::vector<TokenId> tokens;
      for (int i = 0; i < event.length; ++i) tokens.push_back(static_cast<TokenId>(10 + i));
      auto sink = std::make_shared<Collector>();
      if (rig.core->prefixes().add(name, std::move(tokens), sink).ok()) prefix_sinks.push_back(sink);
    }
    const std::int64_t preempted = rig.core->scheduler().counts().preemptions;
    const std::int64_t swaps = rig.core->scheduler().counts().preemptions_by_swap;
    rig.step();  // and check_invariants()
    expect_agrees_with_tables(rig, options);
    const SchedulerCounts counts = rig.core->scheduler().counts();
    if (script.preemption == static_cast<int>(PreemptionMode::swap) && options.num_swap_blocks > 0)
      seen.swap_full += counts.preemptions - preempted > counts.preemptions_by_swap - swaps ? 1 : 0;
  }
  const SchedulerCounts counts = rig.core->scheduler().counts();
  seen.preemptions += counts.preemptions;
  seen.swaps += counts.preemptions_by_swap;
  seen.copies += rig.runner->num_copies;
  for (const auto& sink : prefix_sinks) {
    EXPECT_TRUE(sink->finished);
    seen.prefixes += sink->error.ok() ? 1 : 0;
  }
  for (const PrefixInfo& prefix : rig.core->prefixes().list())
    EXPECT_TRUE(rig.core->prefixes().drop(prefix.name).ok());
  EXPECT_EQ(rig.core->kv().num_free_blocks(), options.num_blocks) << "a leak";
  EXPECT_EQ(rig.core->kv().swap().num_free_swap_blocks(), options.num_swap_blocks);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (sinks[i] == nullptr) continue;
    EXPECT_TRUE(sinks[i]->finished && sinks[i]->error.ok());
    if (!disturbed.contains(i))
      fake::expect_as_reference(requests[i], *sinks[i], options.engine.max_model_len);
  }
}

void check_scripts(Seen& seen, bool grouped) {
  const auto property = [&] {
    ::testing::TestPartResultArray failures;
    for (int i = 0; i < 5 && failures.size() == 0; ++i) {
      const Script script = draw_script(grouped);
      ::testing::ScopedFakeTestPartResultReporter reporter(
          ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
      run_script(script, seen);
    }
    if (failures.size() > 0) RC_FAIL(failures.GetTestPartResult(0).message());
  };
  EXPECT_TRUE(rc::check(grouped ? "KV groups" : "every mode", property));
  std::printf(
      "%lld requests (%lld refused, %lld beams) in %lld + %lld + %lld runs of vllm, orca, fastertransformer; "
      "%lld preemptions, %lld by swap, %lld with the swap space full, %lld aborts while swapped, %lld "
      "prefixes, "
      "%lld copies\n",
      static_cast<long long>(seen.requests), static_cast<long long>(seen.refused),
      static_cast<long long>(seen.beams), static_cast<long long>(seen.by_mode[0]),
      static_cast<long long>(seen.by_mode[1]), static_cast<long long>(seen.by_mode[2]),
      static_cast<long long>(seen.preemptions), static_cast<long long>(seen.swaps),
      static_cast<long long>(seen.swap_full), static_cast<long long>(seen.aborted_swapped),
      static_cast<long long>(seen.prefixes), static_cast<long long>(seen.copies));
  for (const std::int64_t times : {seen.refused, seen.beams, seen.preemptions, seen.swaps, seen.swap_full,
                                   seen.aborted_swapped, seen.prefixes, seen.copies})
    EXPECT_GT(times, 0) << "something was never met";
}

TEST(EngineModes, AgreeWithANaiveBlockManagerAfterEveryStep) {
  Seen seen;
  check_scripts(seen, false);
  for (const std::int64_t runs : seen.by_mode) EXPECT_GT(runs, 50);
}

TEST(EngineModes, SoDoesPagedMemoryWithKvGroups) {
  if (std::getenv("PAGODA_TEST_VIRTUAL_KV") != nullptr) GTEST_SKIP() << "one group only";
  Seen seen;
  check_scripts(seen, true);
}

}  // namespace
}  // namespace pagoda
