#pragma once
// GroupQueues: the groups of a scheduler, each in one of four queues: waiting, arriving, swapped out,
// running. It keeps the queues in order and GroupState in step with them; it decides nothing.
//
//     insert_waiting --remove--> insert_running --remove--> insert_waiting | insert_swapped --remove--> …
//                    --remove--> insert_arriving --remove--> insert_waiting
//
// Invariant: every queue is sorted by (rank, order). A rank changes only while its group is in no queue.
// Groups are borrowed. Threads: none; owned by the engine thread.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "request/sequence.h"

namespace pagoda {

class GroupQueues {
 public:
  struct Before {
    bool operator()(const SequenceGroup* a, const SequenceGroup* b) const {
      return a->rank != b->rank ? a->rank < b->rank : a->order < b->order;
    }
  };
  using Queue = std::set<SequenceGroup*, Before>;

  const Queue& waiting() const { return waiting_; }
  const Queue& arriving() const { return arriving_; }
  const Queue& swapped() const { return swapped_; }
  const std::vector<SequenceGroup*>& running() const { return running_; }
  bool empty() const { return waiting_.empty() && arriving_.empty() && swapped_.empty() && running_.empty(); }

  void insert_waiting(SequenceGroup& group);
  void insert_arriving(SequenceGroup& group);
  void insert_swapped(SequenceGroup& group);
  std::size_t insert_running(SequenceGroup& group);  // its position
  // Removes the group from the queue that its state names; the caller inserts it elsewhere or drops it.
  void remove(SequenceGroup& group);

  // The first `count` running groups take part in the step; the others pause. The count does not change as
  // groups come and go.
  void set_num_in_turn(std::size_t count) { num_in_turn_ = count; }
  bool all_in_turn() const { return num_in_turn_ == running_.size(); }
  // The groups that take part in the step, from `position` on.
  std::span<SequenceGroup* const> in_turn(std::size_t position = 0) const {
    const std::size_t end = std::min(num_in_turn_, running_.size());
    return std::span(running_).first(end).subspan(std::min(position, end));
  }

  // Number of sequences of running and arriving groups that count towards max_num_seqs.
  std::int32_t num_reserved() const;
  // True if a running group was preempted and has not resumed all of its sequences.
  bool any_parked() const;

  void check_invariants() const;

 private:
  Queue waiting_, arriving_, swapped_;
  std::vector<SequenceGroup*> running_;
  std::size_t num_in_turn_ = 0;
};

}  // namespace pagoda
