#pragma once
// Conversations: makes chat workloads from any generator of single rounds, like the chatbot of the paper's
// artifact. An arrival opens a conversation with probability new_share, or if none has rounds left. Otherwise
// it continues one chosen uniformly. A prompt is the conversation so far plus the new question, cut to its
// last history_tokens; the answer is limited by the rest of the window. The number of rounds is geometric
// with mean mean_rounds: of ShareGPT's conversations 20, 16, 11, 9, 7 % have 1, 2, 3, 4, 5 rounds (5,678 of
// them, as published with sarathi-serve); a geometric distribution of mean 5 gives 20, 16, 13, 10, 8. Open
// loop: it does not wait for answers. Until the first cut, a conversation's requests name it as their shared
// prefix.
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
  // lengths(round): the lengths of the round-th round requested.
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
  std::vector<Conversation> begun_;  // conversations with rounds left
  std::uint64_t num_conversations_ = 0, num_rounds_ = 0;
};

}  // namespace pagoda
