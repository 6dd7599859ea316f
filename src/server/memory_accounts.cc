#include "server/memory_accounts.h"

#include <algorithm>
#include <limits>

#include "base/log.h"
#include "base/strings.h"
#include "server/body_budget.h"

namespace pagoda {
namespace {

constexpr std::int64_t kPlainConnection = 24 << 10;  // while a request is served; 9 KB if idle
constexpr std::int64_t kTlsConnection = 72 << 10;
constexpr std::int64_t kHeadFits = 8 << 10;  // head size included in both

// A JSON value takes 24 bytes, on the parser's stack (which grows by doubling) and in the document.
constexpr std::int64_t kValueBytes = 72;
constexpr std::int64_t kArrayBytes = 64;      // overhead of the block with an array's elements
constexpr std::int64_t kCharacterBytes = 10;  // per character: strings twice, tokens, and intermediate pieces
constexpr std::int64_t kAnyText = 256 << 10;

constexpr std::int64_t kNoEnd = std::int64_t{1} << 60;

std::int64_t signed_size(std::size_t size) {
  return static_cast<std::int64_t>(std::min<std::size_t>(size, static_cast<std::size_t>(kNoEnd)));
}

}  // namespace

std::int64_t text_bytes(std::string_view body) {
  // Each value follows one of these characters. Strings may contain them as well, which overestimates the
  // size.
  std::int64_t values = 1, arrays = 0;
  for (const char c : body) {
    values += static_cast<std::int64_t>(c == ',' || c == '[' || c == '{' || c == ':');
    arrays += static_cast<std::int64_t>(c == '[');
  }
  return kAnyText + values * kValueBytes + arrays * kArrayBytes + signed_size(body.size()) * kCharacterBytes;
}

MemoryAccounts::MemoryAccounts(ServerConfig& config)
    : alone_(kNoEnd),
      ledger_(config.memory != nullptr ? config.memory : &alone_),
      per_connection_(config.tls.wanted() ? kTlsConnection : kPlainConnection) {
  const std::int64_t all = ledger_->left();
  const auto add = [&](const char* name, std::int64_t limit, std::int64_t share) {
    limit = std::min(limit, all);
    auto account = ledger_->add_account(name, std::min(limit, all / share), limit);
    CHECK(account.has_value());  // shares of the available memory always fit
    return *account;
  };
  answers_ = add("answers", signed_size(config.max_answer_memory), 4);
  // One body of the maximum size always fits.
  const std::int64_t bodies =
      std::min(signed_size(std::max(config.max_bodies_bytes, config.max_body_bytes)), all / 2);
  bodies_ = add("bodies", BodyBudget::with_room_for_small(bodies), 8);
  texts_ = add("texts", all / 2, 8);
  connections_ = add("connections", signed_size(config.max_connections) * per_connection_, 16);
  if (config.stored_answers == nullptr) {  // stored in memory, not in files
    const std::int64_t stored = std::min(signed_size(config.max_stored_answers_bytes), all / 16);
    stored_bytes_ = *ledger_->try_reserve(add("stored answers", stored, 16), stored);
    config.max_stored_answers_bytes = static_cast<std::size_t>(stored);
  }
  if (const auto largest = static_cast<std::size_t>(bodies); config.max_body_bytes > largest) {
    log_warning("memory", concat("request bodies are limited to ", largest,
                                 " bytes, since there is no memory for more"));
    config.max_body_bytes = largest;
  }
}

bool MemoryAccounts::hold_head(MemoryReservation& connection, std::size_t head_bytes) const {
  const std::int64_t bytes = per_connection_ + std::max<std::int64_t>(signed_size(head_bytes) - kHeadFits, 0);
  // The few connections above the limit have no reservation, and their heads are not counted.
  return connection.bytes() == 0 || bytes <= connection.bytes() || connection.try_resize(bytes);
}

Result<MemoryReservation> MemoryAccounts::text(std::string_view body) {
  if (body.empty()) return MemoryReservation();
  const std::int64_t bytes = text_bytes(body);
  if (std::optional<MemoryReservation> held = ledger_->try_reserve(texts_, bytes)) return *std::move(held);
  if (const std::int64_t limit = limit_of(texts_); bytes > limit)
    return invalid_argument(concat("Parsing this body could take ", bytes, " bytes of memory, and there are ",
                                   limit, " for it. Send less in one request."));
  return resource_exhausted("All memory for parsing requests is in use; please try again later.")
      .with_reason("text_memory_full");
}

}  // namespace pagoda
