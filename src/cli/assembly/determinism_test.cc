// Goal: a request's tokens and log-probability bits are its own: the same alone, among others, in chunks,
// after preemption, from the prefix cache, for any number of threads and any block size. Method: the whole
// engine, as serve builds it, on small models and, where it is there, the default one.
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "base/random.h"
#include "cli/assembly/assemble.h"
#include "cli/assembly/default_model.h"
#include "cli/commands/output_collector.h"

namespace pagoda {
namespace {

// Everything a client can see of one request, log-probabilities as bits.
struct Answer {
  std::map<std::int32_t, std::vector<TokenId>> tokens;          // by choice
  std::map<std::int32_t, std::vector<std::uint32_t>> logprobs;  // chosen, then top, token by token
  std::vector<std::uint32_t> prompt_logprobs;
  std::int32_t num_cached_tokens = 0;

  bool operator==(const Answer& other) const {
    return tokens == other.tokens && logprobs == other.logprobs && prompt_logprobs == other.prompt_logprobs;
  }
};

void append_bits(const TokenLogprobs& from, std::vector<std::uint32_t>& to) {
  to.push_back(std::bit_cast<std::uint32_t>(from.chosen.logprob));
  for (const TokenLogprob& top : from.top) {
    to.push_back(static_cast<std::uint32_t>(top.token));
    to.push_back(std::bit_cast<std::uint32_t>(top.logprob));
  }
}

std::vector<TokenId> prompt(std::uint64_t seed, std::int32_t length, std::int32_t vocab_size) {
  std::vector<TokenId> ids;
  for (std::int32_t i = 0; i < length; ++i)
    ids.push_back(static_cast<TokenId>(random_bits(seed, 1, static_cast<std::uint64_t>(i)) %
                                       static_cast<std::uint64_t>(vocab_size)));
  return ids;
}

enum class Beams { none, four };  // four at once need more room than the smallest caches here have

// Requests of every kind: greedy, seeded, penalised, several choices, prompt log-probabilities; beams.
std::vector<Request> probes(std::int32_t vocab_size, std::int32_t scale, Beams beams) {
  std::vector<Request> requests;
  const auto add = [&](std::int32_t length, auto adjust) {
    Request request;
    request.prompt_token_ids = prompt(requests.size() + 100, length, vocab_size);
    request.sampling.max_tokens = 12 * scale;
    request.sampling.ignore_eos = true;
    request.sampling.logprobs = 2;
    request.sampling.seed = 7 + requests.size();
    adjust(request.sampling);
    requests.push_back(std::move(request));
  };
  add(5, [](SamplingParams& p) { p.temperature = 0; });
  add(32 * scale, [](SamplingParams& p) { p.temperature = 0; });
  add(23, [](SamplingParams& p) { p.temperature = 0.9f; });
  add(33, [](SamplingParams& p) {
    p.temperature = 0.8f;
    p.top_k = 40;
    p.top_p = 0.9f;
    p.repetition_penalty = 1.1f;
    p.presence_penalty = 0.3f;
    p.frequency_penalty = 0.2f;
  });
  add(20, [](SamplingParams& p) {
    p.n = 3;
    p.best_of = 3;
    p.min_p = 0.02f;
  });
  add(30, [](SamplingParams& p) {
    p.temperature = 0;
    p.prompt_logprobs = 1;
  });
  if (beams == Beams::none) return requests;
  add(18, [](SamplingParams& p) {
    p.temperature = 0;
    p.use_beam_search = true;
    p.n = p.best_of = p.beam_width = 3;
  });
  add(14, [](SamplingParams& p) {
    p.temperature = 0;
    p.use_beam_search = true;
    p.n = p.best_of = p.beam_width = 4;
    p.num_beam_groups = 2;
    p.diversity_penalty = 0.5f;
  });
  add(14, [](SamplingParams& p) {
    p.n = 2;
    p.best_of = 4;
  });
  return requests;
}

struct Run {
  std::vector<Answer> answers;
  std::string metrics;
  double metric(const std::string& name) const {
    const std::size_t at = metrics.find("\npagoda:" + name + "{");
    if (at == std::string::npos) return -1;
    return std::stod(metrics.substr(metrics.find('}', at) + 2));
  }
};

enum class Order { one_by_one, all_at_once };

// Runs the probes, with `num_others` unrelated requests in between, on an engine made from `flags`.
Run run(const EngineFlags& flags, std::int32_t scale, Order order, int num_others = 0, int rounds = 1,
        Beams beams = Beams::none) {
  auto engine = AssembledEngine::create(flags, AssembledEngine::Report::quiet);
  EXPECT_TRUE(engine.has_value()) << (engine ? "" : engine.error().message());
  if (!engine) return {};
  const std::int32_t vocab_size = (*engine)->client().limits().vocab_size;
  Run result;
  OutputCollector collector;
  std::uint64_t next_id = 1000;
  int pending = 0;
  std::map<RequestId, std::size_t> probe_of;
  const auto submit = [&](Request request) {
    request.id = RequestId{++next_id};
    const RequestId id = request.id;
    const Status status = (*engine)->client().submit(std::move(request), collector.make_sink());
    EXPECT_TRUE(status.ok()) << status.message();
    pending += status.ok() ? 1 : 0;
    return id;
  };
  const auto wait = [&] {
    while (pending > 0) {
      for (OutputCollector::Item& item : collector.take()) {
        EXPECT_TRUE(item.output.error.ok()) << item.output.error.message();
        if (item.output.finished) --pending;
        const auto probe = probe_of.find(item.output.id);
        if (probe == probe_of.end()) continue;
        Answer& answer = result.answers[probe->second];
        answer.num_cached_tokens = std::max(answer.num_cached_tokens, item.output.num_cached_tokens);
        for (const auto& entry : item.output.prompt_logprobs)
          if (entry) append_bits(*entry, answer.prompt_logprobs);
        for (const SequenceDelta& delta : item.output.deltas) {
          auto& tokens = answer.tokens[delta.index];
          tokens.insert(tokens.end(), delta.token_ids.begin(), delta.token_ids.end());
          for (const TokenLogprobs& logprobs : delta.logprobs)
            append_bits(logprobs, answer.logprobs[delta.index]);
        }
      }
    }
  };
  for (int round = 0; round < rounds; ++round) {
    const std::vector<Request> requests = probes(vocab_size, scale, beams);
    result.answers.assign(requests.size(), {});
    probe_of.clear();
    for (std::size_t i = 0; i < requests.size(); ++i) {
      for (int other = 0; other < num_others / static_cast<int>(requests.size()); ++other) {
        Request filler;
        filler.prompt_token_ids = prompt(5000 + next_id, 1 + other * 7 % 30, vocab_size);
        filler.sampling.max_tokens = 10 * scale;
        filler.sampling.ignore_eos = true;
        submit(std::move(filler));
      }
      probe_of[submit(requests[i])] = i;
      if (order == Order::one_by_one) wait();
    }
    wait();
  }
  (*engine)->stop();
  result.metrics = (*engine)->metrics().expose("pagoda", "model_name=\"m\"");
  return result;
}

void expect_same(const Run& expected, const Run& actual, const char* what) {
  ASSERT_EQ(expected.answers.size(), actual.answers.size()) << what;
  for (std::size_t i = 0; i < expected.answers.size(); ++i)
    EXPECT_TRUE(expected.answers[i] == actual.answers[i]) << what << ": probe " << i << " differs";
}

// The same under vAttention's manager, in every shape of its memory.
void check_virtual(const EngineFlags& base, std::int32_t scale, const Run& alone, std::int64_t token_bytes) {
  EngineFlags flags = base;
  flags.kv_manager = "virtual";
  expect_same(alone, run(flags, scale, Order::all_at_once, 12), "virtual");
  const Run again = run(flags, scale, Order::one_by_one, 0, 2);
  expect_same(alone, again, "virtual, prefix-cache hit");
  EXPECT_GT(again.answers[1].num_cached_tokens, 0);
  for (const std::int64_t page : {4 << 10, 64 << 10, 2 << 20}) {
    EngineFlags paged = flags;
    paged.kv_page_size = page;
    paged.kv_slicing = page != 64 << 10;
    expect_same(alone, run(paged, scale, Order::all_at_once, 6), "virtual, another page size");
  }
  EngineFlags plain = flags;
  plain.kv_page_size = 4 << 10;
  plain.kv_slicing = plain.kv_precreate_pages = plain.kv_map_ahead = plain.kv_eager = false;
  plain.kv_deferred_reclaim = false;
  expect_same(alone, run(plain, scale, Order::all_at_once, 12), "virtual, every optimisation off");

  // Pages are at least 4 KiB; blocks of as many tokens as fill one keep the small models small here too.
  const std::int64_t page_tokens = (4096 + token_bytes - 1) / token_bytes;
  flags.block_size = static_cast<std::int32_t>(std::clamp<std::int64_t>(page_tokens, 16, 256));
  // Each page of a row is padded: there are several where layers have windows.
  auto sized = AssembledEngine::create(flags, AssembledEngine::Report::quiet);
  ASSERT_TRUE(sized.has_value());
  const std::int64_t row_bytes =
      (flags.block_size * (*sized)->memory().kv_bytes_per_token + 4095) / 4096 * 4096;
  (*sized)->stop();
  flags.kv_cache_memory_bytes =
      row_bytes * (scale * (32 + 12) / flags.block_size + (flags.block_size > 16 ? 3 : 4));
  const Run recomputed = run(flags, scale, Order::all_at_once, 18);
  EXPECT_GT(recomputed.metric("num_preemptions_total"), 0);
  expect_same(alone, recomputed, "virtual, after preemption");
  flags.preemption_mode = "swap";
  flags.swap_space_bytes = *flags.kv_cache_memory_bytes;
  const Run swapped = run(flags, scale, Order::all_at_once, 18);
  EXPECT_GT(swapped.metric("num_preemptions_by_swap_total"), 0);
  expect_same(alone, swapped, "virtual, after swapping");
}

// With draft tokens, right ones and wrong ones; random prompts and models that repeat themselves bring
// both.
void check_drafts(const EngineFlags& base, std::int32_t scale, const Run& alone, std::int64_t token_bytes) {
  EngineFlags flags = base;
  flags.speculative = {.num_speculative_tokens = 5, .prompt_lookup_max = 2, .prompt_lookup_min = 1};
  const Run drafted = run(flags, scale, Order::one_by_one);
  const double tried = drafted.metric("spec_decode_num_draft_tokens_total");
  const double right = drafted.metric("spec_decode_num_accepted_tokens_total");
  std::printf("%.0f tokens drafted, %.0f right\n", tried, right);
  EXPECT_GT(tried, 0);
  EXPECT_LT(right, tried);
  expect_same(alone, drafted, "drafts");
  expect_same(alone, run(flags, scale, Order::all_at_once, 6), "drafts, among others");
  EngineFlags chunked = flags;
  chunked.max_num_seqs = 16;
  chunked.max_num_batched_tokens = 16;
  chunked.threads = 1;
  expect_same(alone, run(chunked, scale, Order::one_by_one, 0, 2),
              "drafts, in chunks, from the prefix cache");
  EngineFlags tiny = flags;
  tiny.kv_cache_memory_bytes = token_bytes * 16 * (scale * (32 + 12) / 16 + 4);
  expect_same(alone, run(tiny, scale, Order::all_at_once, 18), "drafts, after preemption");
  flags.kv_manager = "virtual";
  expect_same(alone, run(flags, scale, Order::one_by_one), "drafts, virtual");
}

void check_model(const EngineFlags& base, std::int32_t scale) {
  EngineFlags flags = base;
  flags.threads = 2;
  const Run alone = run(flags, scale, Order::one_by_one);
  ASSERT_FALSE(alone.answers.empty());
  for (const Answer& answer : alone.answers) ASSERT_FALSE(answer.tokens.empty());
  expect_same(alone, run(flags, scale, Order::all_at_once, 32), "among 32 others");
  flags.threads = 1;
  expect_same(alone, run(flags, scale, Order::all_at_once, 12), "1 thread");
  flags.threads = 3;
  expect_same(alone, run(flags, scale, Order::all_at_once), "3 threads");
  flags.threads = 2;
  EngineFlags engines = flags;
  engines.data_parallel_size = 2;
  expect_same(alone, run(engines, scale, Order::all_at_once, 12), "2 engines");

  EngineFlags chunked = flags;
  chunked.max_num_seqs = 16;
  chunked.max_num_batched_tokens = 16;
  expect_same(alone, run(chunked, scale, Order::all_at_once, 12), "chunks of 16");

  const Run again = run(flags, scale, Order::one_by_one, 0, 2);
  EXPECT_GT(again.answers[1].num_cached_tokens, 0);
  expect_same(alone, again, "prefix-cache hit");

  for (const std::int32_t block_size : {1, 5, 32}) {
    EngineFlags blocks = flags;
    blocks.block_size = block_size;
    expect_same(alone, run(blocks, scale, Order::all_at_once), "another block size");
  }

  // A KV cache that holds the longest request and little more: preemption by recomputation.
  auto sized = AssembledEngine::create(flags, AssembledEngine::Report::quiet);
  ASSERT_TRUE(sized.has_value());
  const std::int64_t token_bytes = (*sized)->memory().kv_bytes_per_token;
  (*sized)->stop();
  EngineFlags tiny = flags;
  tiny.kv_cache_memory_bytes = token_bytes * 16 * (scale * (32 + 12) / 16 + 4);
  const Run preempted = run(tiny, scale, Order::all_at_once, 18);
  EXPECT_GT(preempted.metric("num_preemptions_total"), 0);
  expect_same(alone, preempted, "after preemption");
  EngineFlags reserved = flags;
  reserved.scheduler = "orca";
  reserved.reserve = "oracle";  // a region of the longest length may be more than there is
  expect_same(alone, run(reserved, scale, Order::all_at_once, 6), "reserved");
  check_virtual(flags, scale, alone, token_bytes);
  check_drafts(flags, scale, alone, token_bytes);
}

EngineFlags flags_for(const std::string& model, const std::string& dtype,
                      const std::string& kv_cache_dtype = "auto") {
  EngineFlags flags;
  flags.model = model;
  flags.dtype = dtype;
  flags.kv_cache_dtype = kv_cache_dtype;
  flags.kv_cache_memory_bytes = std::int64_t{64} << 20;
  flags.max_num_seqs = 64;
  return flags;
}

class SmallModels : public ::testing::TestWithParam<std::tuple<const char*, const char*, const char*>> {};

TEST_P(SmallModels, SameBitsWhateverTheCompany) {
  const std::string folder =
      std::string(PAGODA_SOURCE_DIR "/tests/fixtures/tiny_models/") + std::get<0>(GetParam());
  ASSERT_TRUE(std::filesystem::exists(folder)) << folder;
  check_model(flags_for(folder, std::get<1>(GetParam()), std::get<2>(GetParam())), 1);
}

INSTANTIATE_TEST_SUITE_P(Determinism, SmallModels,
                         ::testing::Combine(::testing::Values("llama", "llama_gguf_quantized", "mistral",
                                                              "opt", "gpt2", "gemma3", "olmo2", "mixtral",
                                                              "qwen2_moe"),
                                            ::testing::Values("float32", "bfloat16", "int8"),
                                            ::testing::Values("auto")));
INSTANTIATE_TEST_SUITE_P(DeterminismOfEightBitCaches, SmallModels,
                         ::testing::Combine(::testing::Values("llama", "llama_gguf_quantized", "mistral",
                                                              "opt", "gemma3"),
                                            ::testing::Values("auto"), ::testing::Values("int8", "fp8")));

// The model is its own draft model, rounded to a smaller type.
void check_draft_model(const std::string& folder) {
  EngineFlags flags = flags_for(folder, "float32", "auto");
  flags.threads = 2;
  const Run alone = run(flags, 1, Order::one_by_one);
  flags.speculative = {.method = DraftMethod::draft_model, .num_speculative_tokens = 4, .model = folder};
  const Run drafted = run(flags, 1, Order::one_by_one);
  EXPECT_GT(drafted.metric("spec_decode_num_accepted_tokens_total"), 0);
  expect_same(alone, drafted, "drafts");
  expect_same(alone, run(flags, 1, Order::all_at_once, 6), "drafts, among others");
  EngineFlags chunked = flags;
  chunked.max_num_seqs = 16;
  chunked.max_num_batched_tokens = 16;
  expect_same(alone, run(chunked, 1, Order::one_by_one, 0, 2), "drafts, in chunks, from the prefix cache");
  flags.kv_manager = "virtual";
  expect_same(alone, run(flags, 1, Order::one_by_one), "drafts, virtual");
}

TEST(Determinism, ADraftModelChangesNoBit) {
  for (const char* name : {"llama", "gemma3"}) {
    SCOPED_TRACE(name);
    check_draft_model(std::string(PAGODA_SOURCE_DIR "/tests/fixtures/tiny_models/") + name);
  }
}

// The bits of one process are those of ranks, whatever happens on them.
void check_ranks(const std::string& model, const std::string& dtype, const std::string& kv_cache_dtype) {
  EngineFlags flags =
      flags_for(PAGODA_SOURCE_DIR "/tests/fixtures/tiny_models/" + model, dtype, kv_cache_dtype);
  flags.threads = 1;
  flags.rank_timeout_s = 30;  // sanitizers, busy machines
  const auto answers = [](const EngineFlags& with, Order order, int num_others = 0, int rounds = 1) {
    return run(with, 1, order, num_others, rounds, Beams::four);
  };
  const Run alone = answers(flags, Order::one_by_one), without_beams = run(flags, 1, Order::one_by_one);
  ASSERT_FALSE(alone.answers.empty());
  for (const std::int32_t size : {2, 4}) {
    flags.tensor_parallel_size = size;
    SCOPED_TRACE(size);
    // Key-value heads that are on several ranks take room on each.
    auto sized = AssembledEngine::create(flags, AssembledEngine::Report::quiet);
    ASSERT_TRUE(sized.has_value());
    const std::int64_t block_bytes = 16 * (*sized)->memory().kv_bytes_per_token;
    (*sized).reset();
    expect_same(alone, answers(flags, Order::all_at_once, 14), "among others");
    expect_same(alone, answers(flags, Order::one_by_one, 0, 2), "prefix-cache hit");
    EngineFlags drafting = flags;
    drafting.speculative = {.num_speculative_tokens = 5, .prompt_lookup_max = 2, .prompt_lookup_min = 1};
    const Run drafted = answers(drafting, Order::one_by_one);
    EXPECT_GT(drafted.metric("spec_decode_num_draft_tokens_total"), 0);
    expect_same(alone, drafted, "drafts");
    EngineFlags chunked = flags;
    chunked.max_num_seqs = 16;
    chunked.max_num_batched_tokens = 16;
    expect_same(alone, answers(chunked, Order::all_at_once, 7), "chunks of 16");
    EngineFlags tiny = flags;
    tiny.kv_cache_memory_bytes = block_bytes * 8;
    const Run recomputed = answers(tiny, Order::all_at_once, 21);
    EXPECT_GT(recomputed.metric("num_preemptions_total"), 0);
    expect_same(alone, recomputed, "after recomputation");
    tiny.preemption_mode = "swap";
    tiny.swap_space_bytes = block_bytes * 8;
    const Run swapped = answers(tiny, Order::all_at_once, 21);
    EXPECT_GT(swapped.metric("num_preemptions_total"), 0);
    expect_same(alone, swapped, "after swapping");
    EngineFlags in_pages = flags;
    in_pages.kv_manager = "virtual";
    expect_same(alone, answers(in_pages, Order::all_at_once, 14), "virtual cache");
    in_pages.kv_slicing = false;
    in_pages.kv_precreate_pages = false;
    in_pages.swap_space_bytes = std::int64_t{1} << 20;
    expect_same(without_beams, run(in_pages, 1, Order::all_at_once, 14),
                "virtual cache, a tensor for each layer, pages created as they are needed");
    for (const char* scheduler : {"orca", "fastertransformer"}) {
      EngineFlags reserved = flags;
      reserved.scheduler = scheduler;
      if (reserved.scheduler == "orca")
        expect_same(alone, answers(reserved, Order::all_at_once, 14), scheduler);
      else
        expect_same(without_beams, run(reserved, 1, Order::all_at_once, 14), scheduler);
    }
  }
}

class Ranks : public ::testing::TestWithParam<const char*> {};
TEST_P(Ranks, GiveTheBitsOfOneProcess) { check_ranks(GetParam(), "auto", "auto"); }
TEST(RanksWithInt8Cache, GiveTheBitsOfOneProcess) { check_ranks("llama", "float32", "int8"); }
TEST(RanksWithFp8Cache, GiveTheBitsOfOneProcess) { check_ranks("llama", "float32", "fp8"); }
INSTANTIATE_TEST_SUITE_P(Determinism, Ranks,
                         ::testing::Values("llama", "mistral", "qwen2", "qwen3", "opt", "opt_post_norm",
                                           "gpt2", "gemma3", "granite", "phi3", "mixtral", "qwen2_moe",
                                           "qwen3_moe"));

TEST(DefaultModel, SameBitsWhateverTheCompany) {
  auto model = default_model();
  if (!model) GTEST_SKIP() << "the default model is not in the cache";
  // Texts of one length cross each boundary; the tier `families` has others, twice as long.
  check_model(flags_for(*model, "auto"), std::getenv("PAGODA_FULL_GOLDENS") != nullptr ? 2 : 1);
}

}  // namespace
}  // namespace pagoda
