#include "load/conversations.h"

#include <algorithm>

#include "base/random.h"

namespace pagoda {

Conversations::Conversations(const ConversationOptions& options, ArrivalProcess starts,
                             std::function<RequestLengths(std::uint64_t)> lengths)
    : options_(options), starts_(starts), lengths_(std::move(lengths)), next_start_s_(starts_.next()) {}

WorkloadRequest Conversations::next() {
  if (pending_.empty() || next_start_s_ <= pending_.top().at_s) {
    pending_.push({next_start_s_, num_started_++, 0, 0});
    next_start_s_ = starts_.next();
  }
  const Round round = pending_.top();
  pending_.pop();
  const std::uint64_t number = round.conversation * static_cast<std::uint64_t>(options_.rounds) +
                               static_cast<std::uint64_t>(round.number);
  const RequestLengths lengths = lengths_(number);
  const std::int64_t whole = round.said_tokens + lengths.prompt_tokens;
  const std::int64_t kept = std::min<std::int64_t>(whole, std::max(options_.history_tokens, 1));

  WorkloadRequest request;
  request.arrival_s = round.at_s;
  request.prompt_tokens = static_cast<std::int32_t>(kept);
  // The paper's §6.4: at most as much answered as remembered.
  request.output_tokens = std::min(lengths.output_tokens, std::max(options_.history_tokens, 1));
  request.shared_prefix_tokens = request.prompt_tokens;
  // After a cut the tokens stand elsewhere: another prefix.
  request.shared_prefix_id =
      random_bits(options_.seed, round.conversation, static_cast<std::uint64_t>(whole - kept));
  if (round.number + 1 < options_.rounds) {
    Draws draws(options_.seed, Draws::Stream::conversation, number);
    pending_.push({round.at_s + options_.think_s * draws.exponential(), round.conversation, round.number + 1,
                   whole + request.output_tokens});
  }
  return request;
}

}  // namespace pagoda
