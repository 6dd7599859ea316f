#include "device/emulated/ticket_words.h"

#include "device/emulated/block_runner.h"

namespace pagoda::device::emulated {

bool take_ticket(std::uint32_t* counter, std::uint32_t count) {
  BlockRunner& runner = BlockRunner::running();
  runner.note(counter, sizeof *counter, AccessKind::atomic, nullptr);
  if (*counter >= count) runner.refuse("takes a ticket of a counter that has given more than there are");
  const bool last = *counter == count - 1;
  *counter = last ? 0 : *counter + 1;
  return runner.take_ticket(counter, last);
}

}  // namespace pagoda::device::emulated
