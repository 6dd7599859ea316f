#pragma once
// KvRowSource: the rows in this process's tiers, as seen by the server that offers them to other processes
// (kv_peer/peer_server.h). KvRowServer: that server, as seen by the owner of the tiers.
#include <cstddef>
#include <span>
#include <vector>

#include "base/clock.h"
#include "request/tier_moves.h"

namespace pagoda {

// Threads: called concurrently; both calls may block.
class KvRowSource {
 public:
  virtual ~KvRowSource() = default;

  struct Question {
    std::span<const TierKey> keys;
    TimeNs deadline = 0;    // SteadyClock; rows that are still being stored are awaited until then
    TimeNs hold_until = 0;  // rows that are present are kept until then, if there is space
  };
  virtual std::vector<bool> has(const Question& question) = 0;
  // Writes the row into `bytes`. Returns false unless the complete row is present with exactly these tokens
  // and this size.
  [[nodiscard]] virtual bool read(const TierRow& row, std::span<std::byte> bytes) = 0;
};

class KvRowServer {
 public:
  virtual ~KvRowServer() = default;             // afterwards the source is no longer called
  virtual void serve(KvRowSource& source) = 0;  // called once; does not block
};

}  // namespace pagoda
