#include "load/conversations.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace pagoda {

WorkloadRequest Conversations::next(double arrival_s) {
  const std::uint64_t round = num_rounds_++;
  Draws draws(options_.seed, Draws::Stream::conversation, round);
  const bool opens = draws.uniform() < options_.new_share || begun_.empty();
  if (opens) {
    Conversation fresh{.number = num_conversations_++, .rounds_left = 1};
    // Geometric, at least 1: counts how often another round is drawn.
    const double another = 1 - 1.0 / std::max(1, options_.mean_rounds);
    if (another > 0) fresh.rounds_left += static_cast<std::int64_t>(-draws.exponential() / std::log(another));
    begun_.push_back(fresh);
  }
  const auto place = static_cast<std::size_t>(draws.between(0, std::ssize(begun_) - 1));
  Conversation& chosen = opens ? begun_.back() : begun_[place];

  const RequestLengths lengths = lengths_(round);
  const std::int64_t whole = chosen.said_tokens + lengths.prompt_tokens;
  const std::int64_t kept = std::min<std::int64_t>(whole, std::max(options_.history_tokens, 1));
  WorkloadRequest request;
  request.arrival_s = arrival_s;
  request.prompt_tokens = static_cast<std::int32_t>(kept);
  request.output_tokens = std::min(lengths.output_tokens, std::max(options_.max_answer_tokens, 1));
  request.shared_prefix_tokens = request.prompt_tokens;
  // After a cut the tokens have other positions, which makes a different prefix.
  request.shared_prefix_id =
      random_bits(options_.seed, chosen.number, static_cast<std::uint64_t>(whole - kept));
  chosen.said_tokens = whole + request.output_tokens;
  if (--chosen.rounds_left == 0) {
    chosen = begun_.back();
    begun_.pop_back();
  }
  return request;
}

}  // namespace pagoda
