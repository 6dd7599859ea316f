// Any bytes as a control message between ranks: refused, or everything it points to lies inside of it.
// links: model_runner
#include <cstdint>
#include <cstdlib>
#include <span>

#include "model_runner/control_message.h"

namespace {
void check(bool holds) {
  if (!holds) std::abort();
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static pagoda::ControlMessage message;  // reused, as a rank does
  if (!pagoda::decode_control(std::as_bytes(std::span(data, size)), message).ok()) return 0;
  if (message.kind != pagoda::ControlKind::step) return 0;
  std::size_t tokens = 0, blocks = 0, tables = 0;
  for (const pagoda::ScheduledSequence& sequence : message.batch.sequences) {
    check(sequence.tokens.data() == message.tokens.data() + tokens);
    check(sequence.block_table.data() == message.blocks.data() + blocks);
    check(sequence.num_computed_tokens >= 0 && sequence.num_prompt_tokens >= 0);
    tokens += sequence.tokens.size();
    blocks += sequence.block_table.size();
    for (const pagoda::KvTable& table : sequence.more_tables) {
      check(&table == message.tables.data() + tables);
      check(table.blocks.data() == message.blocks.data() + blocks);
      blocks += table.blocks.size();
      ++tables;
    }
  }
  check(tokens == message.tokens.size() && blocks == message.blocks.size() &&
        tables == message.tables.size());
  for (const pagoda::StateCopy& copy : message.batch.state_copies) {
    check(copy.sequence >= 0 && static_cast<std::size_t>(copy.sequence) < message.batch.sequences.size());
    const pagoda::ScheduledSequence& sequence =
        message.batch.sequences[static_cast<std::size_t>(copy.sequence)];
    check(copy.position > sequence.num_computed_tokens && copy.count > 0 && copy.group >= 0 &&
          static_cast<std::size_t>(copy.group) <= sequence.more_tables.size());
  }
  check(message.batch.num_tokens == static_cast<std::int32_t>(tokens));
  return 0;
}
