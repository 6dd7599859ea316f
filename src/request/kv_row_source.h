#pragma once
// KvRowSource: the rows that this process's tiers keep, for whoever serves them to other processes
// (kv_peer/peer_server.h). KvRowServer: that server, as the owner of the tiers sees it.
#include <cstddef>
#include <span>
#include <vector>

#include "base/clock.h"
#include "request/tier_moves.h"

namespace pagoda {

// Threads: several at once; both calls may block.
class KvRowSource {
 public:
  virtual ~KvRowSource() = default;

  struct Question {
    std::span<const TierKey> keys;
    TimeNs deadline = 0;    // SteadyClock; until then rows that are just being stored are waited for
    TimeNs hold_until = 0;  // those that are here stay until then, as far as there is room
  };
  virtual std::vector<bool> has(const Question& question) = 0;
  // Writes the row into `bytes`. False: it is not here whole, with these tokens and so many bytes.
  [[nodiscard]] virtual bool read(const TierRow& row, std::span<std::byte> bytes) = 0;
};

class KvRowServer {
 public:
  virtual ~KvRowServer() = default;             // nothing is asked of the source any more
  virtual void serve(KvRowSource& source) = 0;  // once; returns at once
};

}  // namespace pagoda
