// Goal: a runner that is given a step while the one before it runs draws what it draws step by step, to the
// bit, though it is told no token of the step in flight; and it waits by itself where it has to know one.
// Method: the engine's turns by hand, of sequences that come and go, with all that requests may ask for, on
// emulated devices with several orders of streams (or a GPU: device/test_device.h).
#include <gtest/gtest.h>

#include "device/test_device.h"
#include "device_runner/device_model_runner.h"
#include "device_runner/test_seeds.h"
#include "model_runner/test_sequences.h"

namespace pagoda::device_runner {
namespace {

using namespace pagoda::testing;

constexpr std::int32_t kBlock = 16;

std::unique_ptr<DeviceModelRunner> open_ahead(const char* model, std::uint64_t seed,
                                              const DeviceKernels& kernels) {
  RunnerOptions options;
  options.dtype = "float32";
  options.block_size = kBlock;
  options.num_blocks = 64;
  options.max_context = 128;
  options.max_num_seqs = 8;
  auto source = ModelSource::open(fixture(model));
  auto device = device::open_test_device({.seed = seed});
  CHECK(source.has_value() && device.has_value());
  auto runner = DeviceModelRunner::create(std::shared_ptr<const ModelSource>(*std::move(source)), options,
                                          *std::move(device), kernels);
  CHECK(runner.has_value());
  return *std::move(runner);
}

struct Member {
  TestSequence sequence;
  std::size_t joins = 0, count = 0;  // the step in which it comes, and its draws
  std::size_t planned = 0;           // draws that were submitted
  std::int32_t drawn_at = -1;        // in the step in flight
};

Member member(std::size_t joins, std::size_t count, std::size_t length) {
  Member made{.sequence = {}, .joins = joins, .count = count};
  std::vector<TokenId> prompt;
  for (std::size_t i = 0; i < length; ++i)
    prompt.push_back(static_cast<TokenId>(3 + (7 * i + 5 * length) % 60));
  made.sequence = greedy(prompt);
  made.sequence.seed = length;
  return made;
}

// Each comes and goes at another step; draws, scores and edits differ.
std::vector<Member> members() {
  std::vector<Member> all = {member(0, 9, 5), member(0, 6, 17), member(2, 5, 9), member(3, 7, 30)};
  all[0].sequence.params.logprobs.reset();
  all[1].sequence.params.temperature = 0.9f;
  all[1].sequence.params.top_p = 0.8f;
  all[2].sequence.params.temperature = 1;
  all[2].sequence.params.top_k = 7;
  all[2].sequence.params.logit_bias = {{5, 2.0f}, {9, -3.0f}};
  all[3].sequence.params.min_tokens = 3;
  all[3].sequence.params.stop_token_ids = {4, 7};
  return all;
}

class Turns {
 public:
  explicit Turns(DeviceModelRunner& runner) : runner_(runner) {}

  void run(std::vector<Member>& members) {
    for (std::size_t step = 0; step < 64; ++step) {
      std::vector<Member*> active;
      for (Member& member : members)
        if (member.joins <= step && member.planned < member.count) active.push_back(&member);
      if (!active.empty()) submit(active);
      if (in_flight_.size() == 2 || active.empty()) wait();
      if (active.empty() && in_flight_.empty()) return;
    }
  }

 private:
  void submit(const std::vector<Member*>& active) {
    ScheduledBatch batch;
    for (std::size_t i = 0; i < active.size(); ++i) {
      Member& member = *active[i];
      TestSequence& sequence = member.sequence;
      const bool unknown = member.drawn_at >= 0;
      const auto known = static_cast<std::int32_t>(sequence.tokens.size());
      const std::int32_t end = known + (unknown ? 1 : 0);
      while (std::ssize(sequence.blocks) * kBlock < end)
        sequence.blocks.push_back(static_cast<BlockId>(next_block_++));
      ScheduledSequence scheduled;
      scheduled.id = static_cast<SequenceId>(100 + sequence.num_prompt);
      scheduled.num_computed_tokens = sequence.num_computed;
      scheduled.tokens = unknown ? std::span<const TokenId>(kUnknown)
                                 : std::span<const TokenId>(sequence.tokens)
                                       .subspan(static_cast<std::size_t>(sequence.num_computed));
      scheduled.drawn_at = member.drawn_at;
      scheduled.all_tokens = sequence.tokens;
      scheduled.num_prompt_tokens = sequence.num_prompt;
      scheduled.block_table = sequence.blocks;
      scheduled.rotation = runner_.rotation_rule().rotation_of(sequence.num_prompt);
      scheduled.sample = true;
      scheduled.spec.params = &sequence.params;
      scheduled.spec.seed = sequence.seed;
      scheduled.spec.num_output_tokens = end - sequence.num_prompt;
      batch.num_tokens += static_cast<std::int32_t>(scheduled.tokens.size());
      batch.sequences.push_back(scheduled);
      sequence.num_computed = end;
    }
    runner_.submit(batch);
    for (Member* const before : last_) before->drawn_at = -1;
    for (std::size_t i = 0; i < active.size(); ++i) {
      active[i]->drawn_at = static_cast<std::int32_t>(i);
      ++active[i]->planned;
    }
    last_ = active;
    in_flight_.push_back(active);
  }

  void wait() {
    const std::vector<Member*> waited = in_flight_.front();
    in_flight_.erase(in_flight_.begin());
    const StepResult result = runner_.wait();
    ASSERT_TRUE(result.status.ok()) << result.status.message();
    ASSERT_EQ(result.sequences.size(), waited.size());
    for (std::size_t i = 0; i < waited.size(); ++i) {
      TestSequence& sequence = waited[i]->sequence;
      ASSERT_EQ(result.sequences[i].candidates.size(), 1u);
      sequence.sampled.push_back(result.sequences[i].candidates.front());
      sequence.top.push_back(result.sequences[i].top);
      sequence.tokens.push_back(sequence.sampled.back().token);
      if (in_flight_.empty()) waited[i]->drawn_at = -1;
    }
  }

  inline static const std::vector<TokenId> kUnknown = {kTokenInFlight};
  DeviceModelRunner& runner_;
  std::vector<std::vector<Member*>> in_flight_;
  std::vector<Member*> last_;
  std::int32_t next_block_ = 0;
};

// Each alone, step by step.
std::vector<TestSequence> drawn_alone(const char* model, const std::vector<Member>& all) {
  std::vector<TestSequence> wanted;
  for (const Member& one : all) {
    const auto runner = open_ahead(model, 1, {.graphs = GraphUse::off});
    Driver driver(*runner, kBlock);
    TestSequence sequence = one.sequence;
    EXPECT_TRUE(driver.generate({&sequence}, one.count).ok());
    wanted.push_back(std::move(sequence));
  }
  return wanted;
}

void expect_same_ahead(const char* model, const std::vector<Member>& members) {
  const std::vector<TestSequence> wanted = drawn_alone(model, members);
  for (std::uint64_t seed = 0; seed < num_seeds(); ++seed) {
    constexpr GraphUse kUses[] = {GraphUse::automatic, GraphUse::off, GraphUse::check};
    const auto runner = open_ahead(model, seed, {.graphs = kUses[seed % 3], .measure_idle = seed % 2 == 1});
    ASSERT_EQ(runner->max_in_flight(), 1);
    ASSERT_TRUE(runner->run_ahead());
    ASSERT_EQ(runner->max_in_flight(), 2);
    std::vector<Member> all = members;
    Turns(*runner).run(all);
    for (std::size_t i = 0; i < all.size(); ++i) {
      SCOPED_TRACE(::testing::Message() << model << ", sequence " << i << ", seed " << seed);
      expect_same_draws(all[i].sequence, wanted[i]);
    }
  }
}

TEST(DeviceAhead, DrawsWhatItDrawsStepByStep) { expect_same_ahead("qwen3", members()); }

// Penalties count tokens, which therefore have to be known.
TEST(DeviceAhead, WaitsForTokensThatItHasToKnow) {
  std::vector<Member> all = members();
  all[0].sequence.params.presence_penalty = 0.7f;
  all[2].sequence.params.repetition_penalty = 1.3f;
  all[3].sequence.params.bad_words = {{8, 9}};
  expect_same_ahead("llama", all);
}

// A step that could not be carried out: the one behind it says the same, and nothing of it is run.
TEST(DeviceAhead, NothingRunsBehindAStepThatFailed) {
  const auto runner = open_ahead("llama", 1, {});
  ASSERT_TRUE(runner->run_ahead());
  const std::vector<TokenId> tokens = {3, 4, 5}, unknown = {kTokenInFlight};
  const std::vector<BlockId> wrong = {BlockId{1000}};
  SamplingParams params;
  ScheduledBatch batch;
  batch.sequences.resize(1);
  ScheduledSequence& sequence = batch.sequences[0];
  sequence.tokens = sequence.all_tokens = tokens;
  sequence.num_prompt_tokens = 3;
  sequence.block_table = wrong;
  sequence.sample = true;
  sequence.spec.params = &params;
  runner->submit(batch);
  sequence.num_computed_tokens = 3;
  sequence.tokens = unknown;
  sequence.drawn_at = 0;
  runner->submit(batch);
  const StepResult first = runner->wait(), second = runner->wait();
  EXPECT_NE(first.status.message().find("a block id is out of range"), std::string::npos);
  EXPECT_EQ(second.status.message(), first.status.message());
}

}  // namespace
}  // namespace pagoda::device_runner
