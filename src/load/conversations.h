#pragma once
// Conversations: chat workloads from any generator of single rounds, as the paper's artifact makes its
// chatbot. Each arrival opens a new conversation with probability new_share, else it continues one that has
// begun, any of them with equal chance; where none has rounds left it opens one. A round's prompt is what was
// said so far and the new question, cut to its last history_tokens; its answer may have what then is left of
// the model's window. How many rounds a conversation has is geometric with mean mean_rounds: of ShareGPT's
// conversations 20, 16, 11, 9, 7 % have 1, 2, 3, 4, 5 rounds (5,678 of them, as published with
// sarathi-serve), a geometric of mean 5 20, 16, 13, 10, 8. An open loop: it does not wait for the answer
// before it asks on. Requests of one conversation name it as their shared prefix while nothing has been cut.
// Source: PagedAttention (SOSP'23) §6.4 and its artifact (generate_chatbot_requests, benchmark_chatbot.py).
// Threads: none.
#include <cstdint>
#include <functional>
#include <vector>

#include "load/arrivals.h"
#include "load/lengths.h"
#include "load/workload.h"

namespace pagoda {

struct ConversationOptions {
  std::int32_t mean_rounds = 5;
  double new_share = 0.1;  // above 0, at most 1
  std::int32_t history_tokens = 1024;
  std::int32_t max_answer_tokens = 1016;
  std::uint64_t seed = 0;
};

class Conversations {
 public:
  // lengths(round): of the round-th round that is asked for.
  Conversations(const ConversationOptions& options, std::function<RequestLengths(std::uint64_t)> lengths)
      : options_(options), lengths_(std::move(lengths)) {}

  WorkloadRequest next(double arrival_s);

 private:
  struct Conversation {
    std::uint64_t number = 0;
    std::int64_t said_tokens = 0;
    std::int64_t rounds_left = 0;
  };

  ConversationOptions options_;
  std::function<RequestLengths(std::uint64_t)> lengths_;
  std::vector<Conversation> begun_;  // those with rounds left
  std::uint64_t num_conversations_ = 0, num_rounds_ = 0;
};

}  // namespace pagoda
