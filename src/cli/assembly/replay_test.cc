// Goal: what `serve --record` logs, a replay without the model decides again, step by step, in every mode;
// and a log that was tampered with is noticed or refused. Method: the whole engine, as serve builds it, on a
// small model, with requests of every kind that come and leave while it runs.
#include "sim/replay.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "api/api_context.h"
#include "base/random.h"
#include "base/strings.h"
#include "cli/assembly/assemble.h"
#include "cli/commands/output_collector.h"
#include "cli/simulate/simulation_setup.h"

namespace pagoda {
namespace {

const char* const kModel = PAGODA_SOURCE_DIR "/tests/fixtures/tiny_models/llama";
const char* const kWindowed = PAGODA_SOURCE_DIR "/tests/fixtures/tiny_models/gemma3";

std::string temporary(const std::string& name) {
  return (std::filesystem::path(::testing::TempDir()) / name).string();
}

EngineFlags small_engine() {
  EngineFlags flags;
  flags.model = kModel;
  flags.threads = 1;
  flags.max_model_len = 48;
  flags.block_size = 4;
  flags.max_num_seqs = 12;
  flags.seed = 3;
  flags.kv_cache_memory_bytes = 1 << 20;
  return flags;
}

// About 20 blocks: requests have to give way to each other.
void set_small_cache(EngineFlags& flags, std::int64_t num_blocks) {
  auto engine = AssembledEngine::create(flags, AssembledEngine::Report::quiet);
  ASSERT_TRUE(engine) << engine.error().message();
  flags.kv_cache_memory_bytes = (*engine)->memory().kv_bytes_per_token * flags.block_size * num_blocks;
}

Request make_request(std::uint64_t number, std::int32_t vocab_size, bool beams) {
  const auto draw = [number](std::uint64_t what, std::uint64_t below) {
    return random_bits(1, number, what) % below;
  };
  Request request;
  request.id = RequestId{number};
  request.priority = static_cast<std::int32_t>(draw(0, 3));
  request.tenant = request.priority < 3 ? "many" : "few";
  request.weight = request.priority + 1;
  const std::uint64_t length = 1 + draw(1, 28);
  for (std::uint64_t i = 0; i < length; ++i)  // two families of prompts, for the prefix cache
    request.prompt_token_ids.push_back(
        static_cast<TokenId>(random_bits(number % 2, 7, i) % static_cast<std::uint64_t>(vocab_size)));
  SamplingParams& sampling = request.sampling;
  sampling.max_tokens = static_cast<std::int32_t>(1 + draw(2, 18));
  sampling.eos_token_ids = {static_cast<TokenId>(draw(3, static_cast<std::uint64_t>(vocab_size)))};
  sampling.temperature = draw(4, 2) == 0 ? 0.0f : 1.0f;
  switch (draw(5, 5)) {
    case 0:
      sampling.n = sampling.best_of = 3;
      break;
    case 1:
      sampling.n = 1;
      sampling.best_of = 2;
      break;
    case 2:
      sampling.prompt_logprobs = 1;
      break;
    case 3:
      if (!beams) break;
      sampling.use_beam_search = true;
      sampling.beam_width = 3;
      sampling.n = 2;
      sampling.temperature = 0;
      break;
    default:
      break;
  }
  return request;
}

// A third of the requests to this model are for an adapter.
void record(EngineFlags flags, const std::string& path) {
  flags.record = path;
  if (flags.model == kModel) {
    flags.lora.enable = true;
    flags.lora.modules = {{"plain", PAGODA_SOURCE_DIR "/tests/fixtures/adapters/plain"}};
  }
  auto engine = AssembledEngine::create(flags, AssembledEngine::Report::quiet);
  ASSERT_TRUE(engine) << engine.error().message();
  EngineClient& client = (*engine)->client();
  const bool vllm = flags.scheduler == "vllm", beams = flags.scheduler != "fastertransformer";
  OutputCollector collector;
  std::int64_t open = 0;
  for (std::uint64_t number = 1; number <= 40; ++number) {
    Request request = make_request(number, client.limits().vocab_size, beams);
    if (AdapterCatalog* const adapters = (*engine)->api().adapters; adapters != nullptr && number % 3 == 0)
      request.adapter = adapters->find("plain");
    const Status status = client.submit(std::move(request), collector.make_sink());
    if (status.ok()) ++open;
    if (number % 7 == 0) client.abort(RequestId{number - 2});
    if (number % 11 == 0) client.abort_sequence(RequestId{number}, 0);
    if (number == 20 && vllm) {
      std::vector<TokenId> prefix(9, 5);
      (void)client.add_prefix("system", prefix, collector.make_sink());
      ++open;
    }
    if (number % 10 != 0) continue;
    for (const OutputCollector::Item& item : collector.take()) open -= item.output.finished ? 1 : 0;
  }
  while (open > 0)
    for (const OutputCollector::Item& item : collector.take()) open -= item.output.finished ? 1 : 0;
  if (vllm) (void)client.drop_prefix("system");
  (*engine)->stop();
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

template <class Count>
std::int64_t count_steps(const std::string& path, Count count) {
  std::int64_t out = 0;
  const auto log = RunLogReader::open(path);
  while (log) {
    const auto event = (*log)->next();
    if (!event || !*event) break;
    if (const auto* step = std::get_if<LoggedStep>(&**event)) out += count(*step);
  }
  return out;
}
std::int64_t count_preemptions(const std::string& path) {
  return count_steps(path, [](const LoggedStep& step) { return std::ssize(step.preempted); });
}
std::int64_t count_planned_ahead(const std::string& path) {
  return count_steps(path, [](const LoggedStep& step) { return step.next_planned ? 1 : 0; });
}

struct Mode {
  const char* name;
  void (*set)(EngineFlags&);
};
const Mode kModes[] = {
    {"plain", [](EngineFlags&) {}},
    {"recompute", [](EngineFlags& f) { f.preemption_mode = "recompute"; }},
    {"swap",
     [](EngineFlags& f) {
       f.preemption_mode = "swap";
       f.swap_space_bytes = 1 << 20;
     }},
    {"automatic", [](EngineFlags& f) { f.swap_space_bytes = 1 << 20; }},
    {"whole prompts, no cache",
     [](EngineFlags& f) {
       f.enable_chunked_prefill = false;
       f.enable_prefix_caching = false;
     }},
    {"priority", [](EngineFlags& f) { f.scheduling_policy = "priority"; }},
    {"fair", [](EngineFlags& f) { f.scheduling_policy = "fair"; }},
    {"least often used first", [](EngineFlags& f) { f.eviction_policy = "lfu"; }},
    {"virtual",
     [](EngineFlags& f) {
       f.kv_manager = "virtual";
       f.swap_space_bytes = 1 << 20;
     }},
    {"virtual, few slots, pages made as needed",
     [](EngineFlags& f) {
       f.kv_manager = "virtual";
       f.kv_slots = 12;
       f.kv_precreate_pages = false;
       f.preemption_mode = "recompute";
     }},
    {"speculation",
     [](EngineFlags& f) {
       f.speculative = {.num_speculative_tokens = 4, .prompt_lookup_max = 2, .prompt_lookup_min = 1};
       f.swap_space_bytes = 1 << 20;
     }},
    {"speculation, virtual",
     [](EngineFlags& f) {
       f.speculative = {.num_speculative_tokens = 4, .prompt_lookup_max = 2, .prompt_lookup_min = 1};
       f.kv_manager = "virtual";
     }},
    {"draft model",
     [](EngineFlags& f) {
       f.dtype = "float32";
       f.speculative = {.method = DraftMethod::draft_model, .num_speculative_tokens = 4, .model = f.model};
       f.swap_space_bytes = 1 << 20;
     }},
    {"target latency", [](EngineFlags& f) { f.target_itl_ms = 2; }},
    {"windows", [](EngineFlags& f) { f.model = kWindowed; }},
    {"windows, swap, speculation",
     [](EngineFlags& f) {
       f.model = kWindowed;
       f.preemption_mode = "swap";
       f.swap_space_bytes = 1 << 20;
       f.speculative = {.num_speculative_tokens = 4, .prompt_lookup_max = 2, .prompt_lookup_min = 1};
     }},
    {"windows, virtual, swap",
     [](EngineFlags& f) {
       f.model = kWindowed;
       f.kv_manager = "virtual";
       f.swap_space_bytes = 1 << 20;
     }},
    {"windows, virtual, pages made as needed",
     [](EngineFlags& f) {
       f.model = kWindowed;
       f.kv_manager = "virtual";
       f.kv_precreate_pages = f.kv_slicing = f.kv_deferred_reclaim = false;
     }},
    {"offloaded", [](EngineFlags& f) { f.kv_offloading_bytes = 1 << 20; }},
    {"offloaded, virtual, swap, little memory",
     [](EngineFlags& f) {
       f.kv_manager = "virtual";
       f.swap_space_bytes = 1 << 20;
       f.kv_offloading_bytes = 20 << 10;
     }},
    {"offloaded, windows, fair",
     [](EngineFlags& f) {
       f.model = kWindowed;
       f.scheduling_policy = "fair";
       f.kv_offloading_bytes = 1 << 20;
     }},
    {"asynchronous", [](EngineFlags& f) { f.async_scheduling = true; }},
    {"asynchronous, swap, target latency",
     [](EngineFlags& f) {
       f.async_scheduling = true;
       f.swap_space_bytes = 1 << 20;
       f.target_itl_ms = 2;
     }},
    {"asynchronous, windows, virtual, pages made as needed",
     [](EngineFlags& f) {
       f.async_scheduling = true;
       f.model = kWindowed;
       f.kv_manager = "virtual";
       f.kv_precreate_pages = f.kv_slicing = f.kv_deferred_reclaim = false;
     }},
    {"asynchronous, offloaded, fair",
     [](EngineFlags& f) {
       f.async_scheduling = true;
       f.scheduling_policy = "fair";
       f.kv_offloading_bytes = 1 << 20;
     }},
    {"orca oracle",
     [](EngineFlags& f) {
       f.scheduler = "orca";
       f.reserve = "oracle";
     }},
    {"orca max", [](EngineFlags& f) { f.scheduler = "orca"; }},
    {"fastertransformer", [](EngineFlags& f) { f.scheduler = "fastertransformer"; }},
};

TEST(Replay, RecordedRunsAreDecidedAgainInEveryMode) {
  for (const Mode& mode : kModes) {
    SCOPED_TRACE(mode.name);
    EngineFlags flags = small_engine();
    mode.set(flags);
    // A region of 48 tokens takes 16 blocks; the paged modes are to be short of them.
    set_small_cache(flags, flags.model == kWindowed ? 15 : flags.scheduler == "vllm" ? 26 : 96);
    const std::string path = temporary("run.log");
    record(flags, path);
    const auto report = replay(path, parts_factory({}));  // all that matters is in the log
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_EQ(report->difference, "");
    EXPECT_TRUE(report->complete);
    if (flags.scheduler == "vllm" && flags.kv_manager != "virtual") EXPECT_GT(count_preemptions(path), 0);
    EXPECT_GT(report->num_steps, 30);
    EXPECT_GT(report->num_requests, 30);
    EXPECT_EQ(count_planned_ahead(path) > 0, flags.async_scheduling);
  }
}

class TamperedLog : public ::testing::Test {
 protected:
  void SetUp() override {
    flags_.kv_offloading_bytes = 1 << 20;
    flags_.async_scheduling = true;
    set_small_cache(flags_, 26);
    record(flags_, path_);
    bytes_ = contents(path_);
  }
  Result<ReplayReport> replay_bytes(const std::string& bytes) {
    const std::string path = temporary("tampered.log");
    std::ofstream(path, std::ios::binary) << bytes;
    return replay(path, parts_factory(flags_));
  }
  EngineFlags flags_ = small_engine();
  const std::string path_ = temporary("whole.log");
  std::string bytes_;
};

TEST_F(TamperedLog, ACutIsNoticed) {
  for (std::size_t size = 0; size < bytes_.size(); size += 1 + bytes_.size() / 200) {
    const auto report = replay_bytes(bytes_.substr(0, size));
    if (report) {
      EXPECT_FALSE(report->complete) << size;
      EXPECT_EQ(report->difference, "") << size;
    }
  }
}

TEST_F(TamperedLog, AChangedByteIsRefused) {
  for (std::size_t i = 0; i < 300; ++i) {
    std::string bytes = bytes_;
    const std::size_t at = random_bits(9, 1, i) % bytes.size();
    bytes[at] = static_cast<char>(bytes[at] ^ static_cast<char>(1 + random_bits(9, 2, i) % 255));
    const auto report = replay_bytes(bytes);
    EXPECT_TRUE(!report || !report->complete) << "byte " << at;
  }
}

TEST_F(TamperedLog, AnotherConfigurationIsSeenAtItsFirstDifference) {
  auto log = RunLogReader::open(path_);
  ASSERT_TRUE(log);
  RunHeader header = (*log)->header();
  header.num_blocks += 8;
  const std::string path = temporary("other.log");
  {
    auto writer = RunLogWriter::create(path, header);
    ASSERT_TRUE(writer);
    while (true) {
      auto event = (*log)->next();
      ASSERT_TRUE(event);
      if (!*event) break;
      (*writer)->write(**event);
    }
  }
  const auto report = replay(path, parts_factory(flags_));
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_NE(report->difference.find("step "), std::string::npos);
}

// Values that no engine writes, with right checksums: refused or played, but never trusted.
TEST_F(TamperedLog, WellFormedNonsenseDoesNoHarm) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    auto log = RunLogReader::open(path_);
    ASSERT_TRUE(log);
    const std::string path = temporary("nonsense.log");
    {
      auto writer = RunLogWriter::create(path, (*log)->header());
      ASSERT_TRUE(writer);
      std::uint64_t position = 0;
      const auto strikes = [&](std::uint64_t below) { return random_bits(seed, 3, ++position) % below == 0; };
      while (true) {
        auto event = (*log)->next();
        if (!event || !*event) break;
        if (auto* request = std::get_if<Request>(&**event); request != nullptr && strikes(10)) {
          SamplingParams& sampling = request->sampling;
          const auto value = static_cast<std::int32_t>(random_bits(seed, 4, position)) >> (position % 24);
          std::int32_t* const fields[] = {&sampling.n,          &sampling.best_of,
                                          &sampling.max_tokens, &sampling.min_tokens,
                                          &sampling.beam_width, &sampling.num_beam_groups};
          *fields[random_bits(seed, 5, position) % std::size(fields)] = value;
          if (strikes(2)) sampling.use_beam_search = !sampling.use_beam_search;
          if (strikes(4)) request->prompt_token_ids.clear();
        } else if (auto* step = std::get_if<LoggedStep>(&**event); step != nullptr && strikes(20)) {
          if (strikes(3)) step->preempted.push_back(RequestId{1});
          if (strikes(3)) step->swap_seconds = -1;
          if (strikes(3)) step->sequences.clear();
          if (strikes(3)) step->next_planned = !step->next_planned;
          if (strikes(3))
            step->tier_news.done.push_back({.ticket = TierTicket{random_bits(seed, 7, position) % 40},
                                            .ok = strikes(2),
                                            .tiers = strikes(2) ? 5u : 0u});
          if (strikes(3))
            step->tier_news.found.push_back({.key = {{1, 2, 3, 4}, 7}, .owner = {}, .tiers = 2});
          for (LoggedSequence& sequence : step->sequences) {
            if (strikes(6)) sequence.tokens.assign(random_bits(seed, 6, position) % 9, 1 << 20);
            if (strikes(6)) sequence.tokens.assign(random_bits(seed, 6, position) % 9, 1);
            sequence.logprobs.resize(sequence.beam ? sequence.tokens.size() : 0);
          }
        }
        (*writer)->write(**event);
        if (strikes(40)) (*writer)->write(**event);
      }
    }
    (void)replay(path, parts_factory(flags_));
  }
}

TEST(Replay, OtherFilesAreRefused) {
  const std::string path = temporary("no.log");
  for (const std::string& text : {std::string(), std::string("PAGODARL"), std::string("PAGODARL\1"),
                                  std::string("PAGODARL\2xxxxxxx"), std::string("hello, this is text")}) {
    std::ofstream(path, std::ios::binary) << text;
    const auto report = replay(path, parts_factory({}));
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code(), StatusCode::corrupt_data);
  }
  std::ofstream(path, std::ios::binary) << std::string("PAGODARL\3xxxxxxx");
  const auto before = replay(path, parts_factory({}));
  ASSERT_FALSE(before);
  EXPECT_NE(before.error().message().find("version 3 of the log, written by a Pagoda that"),
            std::string::npos)
      << before.error().message();
  EXPECT_EQ(replay(temporary("missing.log"), parts_factory({})).error().code(), StatusCode::not_found);
}

}  // namespace
}  // namespace pagoda
