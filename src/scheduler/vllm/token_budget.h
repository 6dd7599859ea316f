#pragma once
// TokenBudget: the tokens that a step may still take, and how many of them a prompt or drafts may have:
// decodes go before prompts, and prompts before drafts. It counts; whose turn it is, is the scheduler's
// business.
//     begin_step -> [ take | give_back | raise_to ]*
// Invariant: 0 <= left(). Source: Sarathi-Serve (OSDI'24). Threads: none; owned by the engine thread.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "scheduler/vllm/group_queues.h"

namespace pagoda {

class TokenBudget {
 public:
  explicit TokenBudget(std::int32_t max_tokens) : max_tokens_(max_tokens), limit_(max_tokens) {}

  // The limit of the next steps, at most the one given at the start.
  void set_limit(std::int32_t tokens) { limit_ = tokens; }
  void begin_step() { left_ = std::clamp(limit_, 1, max_tokens_); }

  std::int32_t left() const { return left_; }
  void take(std::int32_t count) {
    CHECK(count <= left_);
    left_ -= count;
  }
  void give_back(std::int32_t count) { left_ += count; }
  // At least `count` are left: for whoever takes them at once or never.
  void raise_to(std::int32_t count) { left_ = std::max(left_, count); }

  // Decodes of these groups. It stops counting where there are more than tokens left.
  std::int32_t decodes(std::span<SequenceGroup* const> groups) const;
  // Tokens for a prompt of the running group at `position`: decodes of this group and of later ones go first.
  // But the oldest always gets on, for the later ones may yet have to give way. `whole`: it takes all of its
  // tokens or none.
  enum class Prompt { whole, in_chunks };
  std::int32_t for_prompt(const GroupQueues& queues, std::size_t position, Prompt prompt) const;
  // Tokens for drafts of that group: all that nobody else could take in this step.
  std::int32_t for_drafts(const GroupQueues& queues, std::size_t position) const;

  // In the last step tokens were left, and nobody of those who wait could be admitted: drafts need not leave
  // any for them.
  void set_queue_blocked(bool blocked) { queue_blocked_ = blocked; }

 private:
  std::int32_t prompts(const GroupQueues& queues, std::size_t position) const;

  const std::int32_t max_tokens_;
  std::int32_t limit_;
  std::int32_t left_ = 0;
  bool queue_blocked_ = false;
};

}  // namespace pagoda
