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
  std::size_t tokens = 0, blocks = 0;
  for (const pagoda::ScheduledSequence& sequence : message.batch.sequences) {
    check(sequence.tokens.data() == message.tokens.data() + tokens);
    check(sequence.block_table.data() == message.blocks.data() + blocks);
    check(sequence.num_computed_tokens >= 0 && sequence.num_prompt_tokens >= 0);
    tokens += sequence.tokens.size();
    blocks += sequence.block_table.size();
  }
  check(tokens == message.tokens.size() && blocks == message.blocks.size());
  check(message.batch.num_tokens == static_cast<std::int32_t>(tokens));
  return 0;
}
