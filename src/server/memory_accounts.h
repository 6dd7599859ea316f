#pragma once
// MemoryAccounts: the server's accounts in the memory ledger of the process (base/memory_budget.h): answers
// (api/answer_memory.h), bodies (body_budget.h), texts (a body while it is parsed: JSON, template, tokens),
// connections, and stored answers. Each account has a guaranteed share; the rest is first come, first served.
// On a small machine the limits are reduced.
// Invariant: all accounts together never use more than the ledger has.
// Units: bytes. Threads: any. Owner: the server; a ledger given in the config must outlive it.
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/memory_budget.h"
#include "server/server.h"

namespace pagoda {

class MemoryAccounts {
 public:
  // Reduces the limits of `config` (largest body, stored answers) to the available memory.
  explicit MemoryAccounts(ServerConfig& config);

  MemoryBudget& ledger() { return *ledger_; }
  const MemoryBudget& ledger() const { return *ledger_; }
  MemoryBudget::AccountId answers() const { return answers_; }
  MemoryBudget::AccountId bodies() const { return bodies_; }
  std::int64_t limit_of(MemoryBudget::AccountId account) const { return ledger_->account(account).limit; }

  std::optional<MemoryReservation> connection() {
    return ledger_->try_reserve(connections_, per_connection_);
  }
  // Resizes a connection's reservation for a request head of `head_bytes`.
  [[nodiscard]] bool hold_head(MemoryReservation& connection, std::size_t head_bytes) const;
  // Reserves memory for parsing this body. invalid_argument: the body needs more than the account's limit;
  // resource_exhausted: not available now.
  Result<MemoryReservation> text(std::string_view body);

 private:
  MemoryBudget alone_;  // used if no ledger is given; as large as all accounts
  MemoryBudget* ledger_;
  std::int64_t per_connection_;
  MemoryBudget::AccountId answers_, bodies_, texts_, connections_;
  MemoryReservation stored_bytes_;
};

// An upper bound on the memory for parsing a body: its JSON values, strings, and the prompt's tokens.
std::int64_t text_bytes(std::string_view body);

}  // namespace pagoda
