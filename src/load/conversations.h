#pragma once
// Conversations: chat workloads from any generator of single rounds. Each conversation asks `rounds`
// questions; a round's prompt is what was said so far and the new question, cut to its last history_tokens.
// Rounds of many conversations come interleaved, in order of time; only conversations under way are kept.
// Rounds are think_s apart on average (exponential), because an open-loop workload does not know when the
// answer came. Requests of one conversation name it as their shared prefix while nothing has been cut.
// Source: PagedAttention (SOSP'23) §6.4, chatbot (1,024 tokens of history).
// Threads: none.
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "load/arrivals.h"
#include "load/lengths.h"
#include "load/workload.h"

namespace pagoda {

struct ConversationOptions {
  std::int32_t rounds = 1;
  std::int32_t history_tokens = 1024;
  double think_s = 10;
  std::uint64_t seed = 0;
};

class Conversations {
 public:
  // starts: when conversations begin. lengths(round): of the round-th round that is asked for.
  Conversations(const ConversationOptions& options, ArrivalProcess starts,
                std::function<RequestLengths(std::uint64_t)> lengths);

  WorkloadRequest next();  // without end

 private:
  struct Round {
    double at_s;
    std::uint64_t conversation;
    std::int32_t number;
    std::int64_t said_tokens;  // before this round
    bool operator>(const Round& other) const {
      return at_s != other.at_s ? at_s > other.at_s : conversation > other.conversation;
    }
  };

  ConversationOptions options_;
  ArrivalProcess starts_;
  std::function<RequestLengths(std::uint64_t)> lengths_;
  std::priority_queue<Round, std::vector<Round>, std::greater<>> pending_;
  std::uint64_t num_started_ = 0;
  double next_start_s_;
};

}  // namespace pagoda
