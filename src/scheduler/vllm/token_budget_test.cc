// Goal: decodes go before prompts, and prompts before drafts, whatever has been taken. Method: random queues,
// and a plain count over all of their sequences.
#include "scheduler/vllm/token_budget.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>

namespace pagoda {
namespace {

struct Drawn {
  GroupQueues queues;
  std::vector<std::unique_ptr<SequenceGroup>> groups;
};

void draw(std::mt19937_64& rng, Drawn& out) {
  const auto below = [&](std::uint64_t n) { return static_cast<std::int32_t>(rng() % n); };
  for (std::int32_t count = below(8); count > 0; --count) {
    SequenceGroup& group = *out.groups.emplace_back(std::make_unique<SequenceGroup>());
    group.order = out.groups.size();
    group.forked = true;
    group.lockstep = below(4) == 0;
    const bool runs = below(3) > 0;
    for (std::int32_t i = 1 + below(3); i > 0; --i) {
      Sequence& sequence = *group.sequences.emplace_back(std::make_unique<Sequence>());
      sequence.tokens.resize(static_cast<std::size_t>(1 + below(6)));
      sequence.state = runs ? SequenceState::resident : SequenceState::parked;
      sequence.num_computed_tokens = runs ? below(static_cast<std::uint64_t>(sequence.num_tokens())) : 0;
    }
    if (runs)
      out.queues.insert_running(group);
    else
      out.queues.insert_waiting(group);
  }
  out.queues.set_num_in_turn(static_cast<std::size_t>(below(out.queues.running().size() + 1)));
}

// Sequences that decode, and tokens that the others miss, of the running groups in turn from `position` on.
std::pair<std::int32_t, std::int32_t> counted(const GroupQueues& queues, std::size_t position) {
  std::int32_t decodes = 0, prompts = 0;
  for (std::size_t i = position; i < queues.in_turn().size(); ++i) {
    const SequenceGroup& group = *queues.running()[i];
    bool together = true;
    for (const auto& sequence : group.sequences) together &= sequence->num_missing() == 1;
    for (const auto& sequence : group.sequences) {
      if (sequence->num_missing() > 1)
        prompts += sequence->num_missing();
      else if (!group.lockstep || together)
        ++decodes;
    }
  }
  return {decodes, prompts};
}

void compare_budget(std::uint64_t seed) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 rng(seed);
  const auto below = [&](std::uint64_t n) { return static_cast<std::int32_t>(rng() % n); };
  const std::int32_t most = 1 + below(30);
  TokenBudget budget(most);
  for (int step = 0; step < 20; ++step) {
    Drawn drawn;
    draw(rng, drawn);
    const GroupQueues& queues = drawn.queues;
    const std::int32_t limit = below(40);
    budget.set_limit(limit);
    budget.begin_step();
    std::int32_t left = std::max(1, std::min(limit, most));
    ASSERT_EQ(budget.left(), left);
    for (int i = 0; i < 6; ++i) {
      const std::int32_t amount = below(static_cast<std::uint64_t>(left) + 1);
      switch (below(4)) {
        case 0:
          budget.give_back(amount);
          left += amount;
          break;
        case 1:
          budget.raise_to(2 * amount);
          left = std::max(left, 2 * amount);
          break;
        default:
          budget.take(amount);
          left -= amount;
      }
      ASSERT_EQ(budget.left(), left);
      const bool blocked = below(2) == 0;
      budget.set_queue_blocked(blocked);
      std::int32_t wait = 0;
      for (const SequenceGroup* group : queues.waiting())
        wait += std::max(group->sequences.front()->num_missing(), group->num_live());
      for (std::size_t at = 0; at <= queues.running().size(); ++at) {
        const auto [decodes, prompts] = counted(queues, at);
        ASSERT_EQ(std::min(left, budget.decodes(queues.in_turn(at))), std::min(left, decodes));
        const std::int32_t least = at == 0 ? std::min(1, left) : 0;
        ASSERT_EQ(budget.for_prompt(queues, at, TokenBudget::Prompt::in_chunks),
                  std::max(left - decodes, least));
        ASSERT_EQ(budget.for_prompt(queues, at, TokenBudget::Prompt::whole),
                  at == 0 ? left : std::max(left - decodes, 0));
        const std::int32_t spare = left - decodes - prompts - (blocked ? 0 : wait);
        ASSERT_EQ(std::max(0, budget.for_drafts(queues, at)), std::max(0, spare));
      }
    }
  }
}

TEST(TokenBudgetProperty, AgreesWithAPlainCount) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) compare_budget(seed);
}

}  // namespace
}  // namespace pagoda
