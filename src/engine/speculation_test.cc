// Goal: draft tokens change nothing but the number of steps: the same tokens, log-probabilities and finish
// reasons, whatever is drafted, in every mode of scheduling, preemption and memory, and no block is lost.
// Method: the fake model, whose tokens depend on all K/V that they find, and a proposer that knows the future
// and lies now and then.
#include <gtest/gtest.h>

#include <set>

#include "base/random.h"
#include "engine/beam_reference.h"
#include "engine/engine_test_support.h"

namespace pagoda {
namespace {

using fake::Collector;
using fake::make_request;
using fake::Options;
using fake::Rig;

// Drafts up to `most` tokens; each is wrong once in `lies_in` times (0: never).
class Clairvoyant final : public SequenceProposer {
 public:
  Clairvoyant(std::int32_t most, std::uint64_t lies_in) : most_(most), lies_in_(lies_in) {}

  void propose(const SequenceGroup& group, Sequence& sequence, std::int32_t limit, std::int32_t) override {
    EXPECT_TRUE(sequence.draft.empty());
    EXPECT_FALSE(sequence.beam);
    std::vector<TokenId> tokens = sequence.tokens;
    const auto count =
        std::min<std::uint64_t>(static_cast<std::uint64_t>(std::min(limit, most_)),
                                random_bits(1, 1, ++calls_) % (static_cast<unsigned>(most_) + 1));
    for (std::uint64_t i = 0; i < count; ++i) {
      TokenId token = fake::sample(fake::attended_after(tokens, fake::adapter_of(group.request)), group.seed,
                                   static_cast<std::uint32_t>(sequence.index),
                                   sequence.num_output_tokens() + static_cast<std::int32_t>(i),
                                   group.sampling().temperature)
                          .token;
      if (lies_in_ > 0 && random_bits(2, calls_, i) % lies_in_ == 0) token = (token + 1) % fake::kVocabulary;
      tokens.push_back(token);
      sequence.draft.push_back(token);
    }
  }
  void verified(Sequence&, std::int32_t num_tried, std::int32_t num_accepted) override {
    EXPECT_TRUE(num_accepted >= 0 && num_accepted <= num_tried);
    tried += num_tried;
    accepted += num_accepted;
  }
  std::int64_t tried = 0, accepted = 0;

 private:
  const std::int32_t most_;
  const std::uint64_t lies_in_;
  std::uint64_t calls_ = 0;
};

struct Speculating : Rig {
  Speculating(const Options& options, std::int32_t most, std::uint64_t lies_in) : Rig(options) {
    auto owned = std::make_unique<Clairvoyant>(most, lies_in);
    proposer = owned.get();
    core->steps().drafts().set_proposer(std::move(owned));
  }
  Clairvoyant* proposer;
};

TEST(Speculation, BringsTheSameTokensInFewerSteps) {
  for (const bool virtual_kv : {false, true}) {
    Options options;
    options.virtual_kv = virtual_kv;
    Request request = make_request(1, {1, 2, 3, 4, 5}, 40);
    request.sampling.logprobs = 0;
    Rig plain(options);
    const auto expected = plain.submit(request);
    const std::int64_t steps = plain.run_all();
    EXPECT_EQ(steps, 40);

    Speculating rig(options, 4, 0);
    const auto sink = rig.submit(request);
    EXPECT_LT(rig.run_all(), 20);
    EXPECT_GT(rig.proposer->accepted, 20);
    EXPECT_EQ(rig.proposer->accepted, rig.proposer->tried);
    EXPECT_EQ(sink->choices[0].tokens, expected->choices[0].tokens);
    EXPECT_EQ(sink->choices[0].logprobs, expected->choices[0].logprobs);
    EXPECT_EQ(sink->choices[0].cumulative_logprob, expected->choices[0].cumulative_logprob);
    EXPECT_EQ(sink->num_outputs, expected->num_outputs) << "every token is told on its own";
    EXPECT_EQ(rig.core->kv().num_free_blocks(), options.num_blocks);
  }
}

TEST(Speculation, NeverGoesBeyondTheEnd) {
  for (std::int32_t max_tokens = 1; max_tokens < 12; ++max_tokens) {
    Options options;
    options.engine.max_model_len = 13;
    options.num_blocks = 4;
    Speculating rig(options, 8, 0);
    const Request request = make_request(1, {1, 2, 3, 4, 5}, max_tokens);
    const auto sink = rig.submit(request);
    rig.run_all();
    fake::expect_as_reference(request, *sink, options.engine.max_model_len);
  }
}

TEST(Speculation, AStopTokenAmongTheGuessesEndsIt) {
  std::int64_t stopped = 0;
  for (std::uint64_t seed = 1; seed < 60; ++seed) {
    Options options;
    Speculating rig(options, 6, seed % 3 == 0 ? 4 : 0);
    Request request = make_request(1, {1, 2, 3}, 50);
    request.sampling.temperature = 1;
    request.sampling.seed = seed;
    request.sampling.ignore_eos = false;
    request.sampling.min_tokens = static_cast<std::int32_t>(seed % 7);
    request.sampling.stop_token_ids = {7, 11};
    const auto sink = rig.submit(request);
    rig.run_all();
    fake::expect_as_reference(request, *sink, options.engine.max_model_len);
    stopped += sink->choices[0].reason == FinishReason::stop ? 1 : 0;
  }
  EXPECT_GT(stopped, 30);
}

// Blocks computed by right drafts are found by the next request; wrong ones are not.
TEST(Speculation, OnlyAcceptedTokensEnterThePrefixCache) {
  for (const std::uint64_t lies_in : {0, 2}) {
    Options options;
    Speculating rig(options, 6, lies_in);
    Request first = make_request(1, {1, 2, 3, 4, 5}, 24);
    const auto told = rig.submit(first);
    rig.run_all();
    Request second = first;
    second.id = RequestId{2};
    const std::vector<TokenId>& answer = told->choices[0].tokens;
    second.prompt_token_ids.insert(second.prompt_token_ids.end(), answer.begin(), answer.end());
    const auto sink = rig.submit(second);
    rig.run_all();
    // 29 tokens, of which the last was never computed.
    EXPECT_EQ(sink->num_cached_tokens, 28);
    fake::expect_as_reference(second, *sink, options.engine.max_model_len);
  }
}

TEST(Speculation, TakesNoRoomFromOthers) {
  Options options;
  options.num_blocks = 12;
  const auto run = [&](Rig& rig) {
    std::vector<std::shared_ptr<Collector>> sinks;
    for (std::uint64_t id = 1; id <= 4; ++id)
      sinks.push_back(rig.submit(make_request(id, {static_cast<TokenId>(id), 2, 3}, 20)));
    rig.run_all();
    return rig.core->scheduler().counts().preemptions;
  };
  Rig plain(options);
  Speculating rig(options, 8, 2);
  EXPECT_LE(run(rig), run(plain) + 1);
  EXPECT_GT(rig.proposer->accepted, 0);
}

// The share of a step that its budget has for prompts is not there for drafts while a prompt could use it.
TEST(Speculation, LeavesThePromptsOfOthersTheirShareOfAStep) {
  struct Shares final : StepObserver {
    void on_step(const StepReport& report) override {
      std::int32_t prompt = 0;
      drafts = 0;
      for (const ScheduledSequence& sequence : report.batch.sequences) {
        if (sequence.num_prompt_tokens == 100) prompt = static_cast<std::int32_t>(sequence.tokens.size());
        drafts += sequence.num_draft_tokens;
      }
      prompts.push_back(prompt);
    }
    std::vector<std::int32_t> prompts;
    std::int32_t drafts = 0;
  };
  Options options;
  options.engine.max_model_len = 256;
  options.num_blocks = 128;
  Speculating rig(options, 1000, 0);  // nearly always more drafts than there are tokens
  Shares shares;
  rig.core->add_observer(shares);
  rig.scheduler->set_token_budget(17);
  const Request stream = make_request(1, {1, 2, 3, 4}, 200);
  const auto stream_sink = rig.submit(stream);
  for (int i = 0; i < 2; ++i) rig.step();
  EXPECT_GT(shares.drafts, 0);
  const Request late = make_request(2, std::vector<TokenId>(100, 5), 4);
  const auto sink = rig.submit(late);
  shares.prompts.clear();
  while (sink->num_outputs == 0) ASSERT_TRUE(rig.step());
  EXPECT_EQ(shares.prompts, std::vector<std::int32_t>({16, 16, 16, 16, 16, 16, 4}));
  EXPECT_GT(shares.drafts, 0) << "what the last of the prompt leaves";
  rig.run_all();
  fake::expect_as_reference(stream, *stream_sink, 256);
  fake::expect_as_reference(late, *sink, 256);
}

TEST(Speculation, TheNgramProposerServesACoreThatIsConfiguredSo) {
  Options options;
  options.engine.speculative = {.num_speculative_tokens = 5, .prompt_lookup_max = 4, .prompt_lookup_min = 1};
  options.engine.max_num_batched_tokens = 256;  // for drafts beside the prompts that wait, too
  Rig rig(options);
  std::vector<Request> requests;
  std::vector<std::shared_ptr<Collector>> sinks;
  for (std::uint64_t id = 1; id <= 3; ++id) {
    std::vector<TokenId> prompt;
    for (TokenId token = 0; token < fake::kVocabulary; ++token) prompt.push_back(token);
    requests.push_back(make_request(id, prompt, 20));
    sinks.push_back(rig.submit(requests.back()));
  }
  rig.run_all();
  for (std::size_t i = 0; i < requests.size(); ++i)
    fake::expect_as_reference(requests[i], *sinks[i], options.engine.max_model_len);
  EXPECT_GT(rig.runner->num_draft_tokens, 0);
  const std::string metrics = rig.metrics.expose("pagoda", "");
  EXPECT_NE(metrics.find("pagoda:spec_decode_num_drafts_total"), std::string::npos);
  EXPECT_NE(metrics.find("pagoda:spec_decode_num_accepted_tokens_per_pos_total{position=\"4\"}"),
            std::string::npos);
}

// Every mode at once, small pools, all sorts of requests.
TEST(Speculation, IsExactInEveryMode) {
  std::int64_t accepted = 0, rejected = 0, preemptions = 0, swaps = 0, cached = 0, aborted = 0, forks = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    std::uint64_t position = 0;
    const auto below = [&](std::uint64_t limit) { return random_bits(seed, 5, ++position) % limit; };
    const auto between = [&](int low, int high) {
      return low + static_cast<int>(below(static_cast<std::uint64_t>(high - low + 1)));
    };
    SCOPED_TRACE(seed);
    Options options;
    options.engine.max_model_len = 40;
    options.engine.block_size = between(1, 6);
    options.num_blocks = 40 / options.engine.block_size + between(1, 12);
    options.num_swap_blocks = below(2) == 0 ? 0 : between(1, options.num_blocks);
    options.virtual_kv = below(2) == 0;
    options.engine.max_num_seqs = between(1, 10);
    options.engine.enable_chunked_prefill = below(4) != 0;
    options.engine.max_num_batched_tokens = options.engine.enable_chunked_prefill ? between(1, 40) : 40;
    options.engine.enable_prefix_caching = below(2) == 0;
    options.engine.scheduling_policy = below(4) == 0 ? SchedulingPolicy::priority : SchedulingPolicy::fcfs;
    options.engine.preemption_mode = static_cast<PreemptionMode>(below(std::size(kPreemptionPolicies)));
    options.engine.preemption_costs = {.per_block_copied = 1, .per_token_recomputed = 1};
    Speculating rig(options, between(1, 9), below(3) == 0 ? 0 : 2 + below(6));
    struct Asked {
      Request request;
      std::shared_ptr<Collector> sink;
      int at = 0, abort_at = -1;
      bool disturbed = false;
    };
    std::vector<Asked> all(1 + below(8));
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::vector<TokenId> prompt;
      for (int left = between(0, 9); left > 0; --left) prompt.push_back(static_cast<TokenId>(10 + left));
      for (int left = between(1, 6); left > 0; --left) prompt.push_back(static_cast<TokenId>(below(4)));
      Asked& asked = all[i];
      asked.request = make_request(i + 1, std::move(prompt), between(1, 24));
      SamplingParams& sampling = asked.request.sampling;
      sampling.n = below(2) == 0 ? 1 : between(1, 4);
      sampling.best_of = sampling.n + (below(4) == 0 ? between(1, 2) : 0);
      sampling.temperature = below(2) == 0 ? 0.0f : 1.0f;
      sampling.seed = seed * 100 + i;
      sampling.ignore_eos = below(3) != 0;
      sampling.use_beam_search = below(6) == 0;
      if (sampling.use_beam_search) sampling.temperature = 0;
      if (below(3) == 0) sampling.logprobs = 0;
      if (below(6) == 0 && !sampling.use_beam_search) sampling.prompt_logprobs = 0;
      asked.request.priority = between(0, 2);
      asked.at = between(0, 20);
      if (below(5) == 0) asked.abort_at = asked.at + between(0, 15);
    }
    for (int step = 0; step <= 20 || !rig.core->idle(); ++step) {
      ASSERT_LT(step, 3000);
      for (Asked& asked : all) {
        if (asked.at == step) {
          auto sink = std::make_shared<Collector>();
          if (rig.core->submit(asked.request, sink).ok()) asked.sink = sink;
        }
        if (!asked.sink || asked.sink->finished || asked.abort_at != step) continue;
        if (below(2) == 0)
          rig.core->abort(asked.request.id);
        else
          rig.core->abort_sequence(asked.request.id, 0);
        asked.disturbed = true;
        ++aborted;
      }
      rig.step();  // and check_invariants()
    }
    const SchedulerCounts counts = rig.core->scheduler().counts();
    preemptions += counts.preemptions;
    swaps += counts.preemptions_by_swap;
    accepted += rig.proposer->accepted;
    rejected += rig.proposer->tried - rig.proposer->accepted;
    EXPECT_EQ(rig.core->kv().num_free_blocks(), options.num_blocks) << "a leak";
    for (const Asked& asked : all) {
      if (!asked.sink) continue;
      ASSERT_TRUE(asked.sink->finished && asked.sink->error.ok());
      cached += asked.sink->num_cached_tokens;
      forks += asked.request.sampling.n > 1 ? 1 : 0;
      if (!asked.disturbed)
        fake::expect_as_reference(asked.request, *asked.sink, options.engine.max_model_len);
    }
  }
  for (const std::int64_t times : {accepted, rejected, preemptions, swaps, cached, aborted, forks})
    EXPECT_GT(times, 50) << "something was hardly met";
}

}  // namespace
}  // namespace pagoda
