#pragma once
// MemoryAccounts: the server's accounts in the ledger of the process's memory (base/memory_budget.h), and
// what is counted to each: answers (api/answer_memory.h), bodies (body_budget.h), texts (a body while it is
// read: JSON, template, tokens), connections, and answers that are stored. What a machine is too small for is
// cut down: to every account a share is promised, the rest is for whoever asks first.
// Invariant: what all accounts use together is never more than the ledger has.
// Units: bytes. Threads: any. Owner: the server; the ledger, where one is given, outlives it.
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/memory_budget.h"
#include "server/server.h"

namespace pagoda {

class MemoryAccounts {
 public:
  // `config` is cut down to what there is: the largest body, and what is stored.
  explicit MemoryAccounts(ServerConfig& config);

  MemoryBudget& ledger() { return *ledger_; }
  const MemoryBudget& ledger() const { return *ledger_; }
  MemoryBudget::AccountId answers() const { return answers_; }
  MemoryBudget::AccountId bodies() const { return bodies_; }
  std::int64_t limit_of(MemoryBudget::AccountId account) const { return ledger_->account(account).limit; }

  std::optional<MemoryReservation> connection() {
    return ledger_->try_reserve(connections_, per_connection_);
  }
  // The same, for one whose head is so long.
  [[nodiscard]] bool hold_head(MemoryReservation& connection, std::size_t head_bytes) const;
  // Reserves memory for reading this body. invalid_argument: more than all texts may have;
  // resource_exhausted: now.
  Result<MemoryReservation> text(std::string_view body);

 private:
  MemoryBudget alone_;  // used where none is given: as large as the accounts
  MemoryBudget* ledger_;
  std::int64_t per_connection_;
  MemoryBudget::AccountId answers_, bodies_, texts_, connections_;
  MemoryReservation stored_bytes_;
};

// At most, from what a body looks like: each of its JSON values, the strings, and the prompt's tokens.
std::int64_t text_bytes(std::string_view body);

}  // namespace pagoda
