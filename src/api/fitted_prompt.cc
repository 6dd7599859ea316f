#include "api/fitted_prompt.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"

namespace pagoda {
namespace {

// Messages to drop: [first, turn), and [turn + 1, rest) within the last turn.
struct Cut {
  std::size_t first, turn, rest;

  std::size_t dropped() const { return (turn - first) + (rest - turn - 1); }
};

// All possible cuts in ascending order of dropped messages. The first cut drops nothing.
std::vector<Cut> cuts_of(const std::vector<ChatMessage>& messages) {
  const auto spoken = std::ranges::find_if(
      messages, [](const ChatMessage& m) { return m.role != "system" && m.role != "developer"; });
  const auto first = static_cast<std::size_t>(spoken - messages.begin());
  std::vector<Cut> cuts = {{first, first, first + 1}};
  std::size_t turn = first;
  for (std::size_t i = first + 1; i < messages.size(); ++i)
    if (messages[i].role == "user") cuts.push_back({first, turn = i, i + 1});
  for (std::size_t i = turn + 2; i < messages.size(); ++i)
    if (messages[i].role == "assistant") cuts.push_back({first, turn, i});
  return cuts;
}

Conversation without(const Conversation& whole, const Cut& cut) {
  Conversation out = whole;
  const auto at = [&](std::size_t index) {
    return out.messages.begin() + static_cast<std::ptrdiff_t>(index);
  };
  if (cut.dropped() == 0) return out;
  out.messages.erase(at(cut.turn + 1), at(cut.rest));
  out.messages.erase(at(cut.first), at(cut.turn));
  return out;
}

}  // namespace

Result<std::vector<TokenId>> fitted_prompt_tokens(const Conversation& conversation, std::int64_t room,
                                                  const ApiContext& context, const ChatPromptOptions& options,
                                                  Warnings& warnings) {
  const std::vector<Cut> cuts = cuts_of(conversation.messages);
  Result<std::vector<TokenId>> prompt = chat_prompt_tokens(conversation, context, options);
  const auto fits = [&](const Result<std::vector<TokenId>>& ids) {
    if (!ids) return ids.error().reason() != "context_length_exceeded";  // no cut fixes another error
    return static_cast<std::int64_t>(ids->size()) + room <= context.max_model_len;
  };
  if (fits(prompt)) return prompt;
  std::size_t low = 1, high = cuts.size();  // cuts below `low` are too long; `high` fits, if it exists
  std::optional<Result<std::vector<TokenId>>> fitting;
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    Result<std::vector<TokenId>> ids =
        chat_prompt_tokens(without(conversation, cuts[middle]), context, options);
    if (fits(ids)) {
      high = middle;
      fitting = std::move(ids);
    } else {
      low = middle + 1;
    }
  }
  if (!fitting) return prompt;
  warnings.add("truncation",
               concat("the ", cuts[high].dropped(), " oldest messages did not fit and are left out"));
  return *std::move(fitting);
}

}  // namespace pagoda
