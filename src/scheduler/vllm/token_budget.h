#pragma once
// TokenBudget: the remaining tokens of a step, and the share of them that a prompt or drafts may use. Decodes
// have priority over prompts, and prompts over drafts. It only counts; the scheduler decides the order of
// sequences.
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

  // Sets the limit of the next steps; values above max_tokens have no effect.
  void set_limit(std::int32_t tokens) { limit_ = tokens; }
  void begin_step() { left_ = std::clamp(limit_, 1, max_tokens_); }

  std::int32_t left() const { return left_; }
  void take(std::int32_t count) {
    CHECK(count <= left_);
    left_ -= count;
  }
  void give_back(std::int32_t count) { left_ += count; }
  // Ensures that at least `count` tokens are left, for a prompt that runs whole or not at all.
  void raise_to(std::int32_t count) { left_ = std::max(left_, count); }

  // Number of decodes of these groups; stops counting above left().
  std::int32_t decodes(std::span<SequenceGroup* const> groups) const;
  // Tokens for a prompt of the running group at `position`, after the decodes of this and of later groups.
  // The oldest group always gets some, since later groups may still be preempted. Prompt::whole: the prompt
  // takes all of its tokens or none.
  enum class Prompt { whole, in_chunks };
  std::int32_t for_prompt(const GroupQueues& queues, std::size_t position, Prompt prompt) const;
  // Tokens for drafts of the group at `position`: those that no other sequence could use in this step.
  std::int32_t for_drafts(const GroupQueues& queues, std::size_t position) const;

  // Set if the last step had tokens left and no waiting group could be admitted: drafts need not leave
  // tokens for the queue.
  void set_queue_blocked(bool blocked) { queue_blocked_ = blocked; }

 private:
  std::int32_t prompts(const GroupQueues& queues, std::size_t position) const;

  const std::int32_t max_tokens_;
  std::int32_t limit_;
  std::int32_t left_ = 0;
  bool queue_blocked_ = false;
};

}  // namespace pagoda
