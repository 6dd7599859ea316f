#include "model_runner/held_batch.h"

#include "base/check.h"

namespace pagoda {

std::vector<TokenId> drawn_tokens(const StepResult& result) {
  std::vector<TokenId> drawn;
  for (const SequenceResult& sequence : result.sequences)
    drawn.push_back(sequence.candidates.empty() ? kTokenInFlight : sequence.candidates.front().token);
  return drawn;
}

void HeldBatch::copy(const ScheduledBatch& from) {
  batch_ = from;
  std::size_t num_tokens = 0, num_blocks = 0, num_tables = 0;
  for (const ScheduledSequence& sequence : batch_.sequences) {
    num_tokens += sequence.all_tokens.size() + (sequence.drawn_at >= 0 ? 1 : 0);
    num_blocks += sequence.block_table.size();
    num_tables += sequence.more_tables.size();
    for (const KvTable& table : sequence.more_tables) num_blocks += table.blocks.size();
  }
  tokens_.clear();
  blocks_.clear();
  tables_.clear();
  tokens_.reserve(num_tokens);  // so that spans into the vectors stay valid
  blocks_.reserve(num_blocks);
  tables_.reserve(num_tables);
  const auto keep = [](auto& in, const auto& some) {
    const auto at = static_cast<std::ptrdiff_t>(in.size());
    in.insert(in.end(), some.begin(), some.end());
    return std::span(in.begin() + at, in.end());
  };
  for (ScheduledSequence& sequence : batch_.sequences) {
    sequence.all_tokens = keep(tokens_, sequence.all_tokens);
    if (sequence.drawn_at >= 0) {
      tokens_.push_back(kTokenInFlight);
      sequence.all_tokens = {sequence.all_tokens.data(), sequence.all_tokens.size() + 1};
    }
    sequence.tokens = sequence.all_tokens.subspan(static_cast<std::size_t>(sequence.num_computed_tokens),
                                                  sequence.tokens.size());
    sequence.block_table = keep(blocks_, sequence.block_table);
    const std::size_t first = tables_.size();
    for (const KvTable& table : sequence.more_tables)
      tables_.push_back({.blocks = keep(blocks_, table.blocks), .first_row = table.first_row});
    sequence.more_tables = std::span(tables_).subspan(first);
  }
}

void HeldBatch::fill_in(std::span<const TokenId> drawn) {
  std::size_t end = 0;
  for (ScheduledSequence& sequence : batch_.sequences) {
    end += sequence.all_tokens.size();
    if (sequence.drawn_at < 0) continue;
    tokens_[end - 1] = drawn[static_cast<std::size_t>(sequence.drawn_at)];
    CHECK(tokens_[end - 1] != kTokenInFlight);
    sequence.drawn_at = -1;
  }
}

}  // namespace pagoda
