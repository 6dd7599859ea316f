#pragma once
// The messages between servers that share K/V: a header of 16 bytes and a payload. One side sends requests;
// the other answers each exactly once, in order:
//     hello (fingerprint)     -> welcome | refused (reason)
//     ask (keys)              -> have (one bit per key)
//     fetch (key, tokens)     -> row (checksum, bytes) | lost
// Numbers are little-endian. Parsers trust no byte: their results are complete and within the limits below,
// and they allocate no more memory than the received bytes justify. Threads: any.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kv_store/kv_key.h"
#include "request/tier_moves.h"

namespace pagoda {

enum class PeerFrameType : std::uint8_t { hello = 1, welcome, refused, ask, have, fetch, row, lost };

struct PeerFrameHead {
  static constexpr std::size_t kBytes = 16;
  PeerFrameType type{};
  std::uint32_t number = 0;  // an answer repeats the number of its request
  std::uint32_t size = 0;    // payload size in bytes
  bool operator==(const PeerFrameHead&) const = default;
};

struct PeerHello {
  KvDigest fingerprint{};  // must be equal on both sides, so that both compute the same bits
};
struct PeerAsk {
  std::uint32_t patience_ms = 0;  // time after which the answer is of no use
  std::vector<TierKey> keys;
};
struct PeerFetch {
  TierKey key;
  std::vector<TokenId> tokens;
};

constexpr std::size_t kMaxPeerKeys = 16384;      // per ask
constexpr std::size_t kMaxPeerTokens = 1 << 16;  // per row
constexpr std::size_t kMaxPeerRefusal = 256;     // bytes
constexpr std::size_t kPeerRowHead = 8;          // the checksum before the bytes of a row
constexpr std::size_t kMaxPeerRow = std::size_t{1} << 30;

// Each returns a complete frame. encode_row_head() stops after the checksum: the bytes of the row are sent
// separately, without a copy.
std::vector<std::byte> encode_hello(std::uint32_t number, const PeerHello& hello);
std::vector<std::byte> encode_refused(std::uint32_t number, std::string_view why);
std::vector<std::byte> encode_ask(std::uint32_t number, const PeerAsk& ask);
std::vector<std::byte> encode_have(std::uint32_t number, const std::vector<bool>& have);
std::vector<std::byte> encode_fetch(std::uint32_t number, const PeerFetch& fetch);
std::vector<std::byte> encode_row_head(std::uint32_t number, std::uint64_t checksum, std::size_t row_bytes);
std::vector<std::byte> encode_empty(PeerFrameType type, std::uint32_t number);  // welcome, lost

// nullopt if the bytes are not a header of this protocol, or the payload is larger than its type allows.
std::optional<PeerFrameHead> parse_head(std::span<const std::byte, PeerFrameHead::kBytes> bytes);
// These parse complete payloads. nullopt if malformed.
std::optional<PeerHello> parse_hello(std::span<const std::byte> payload);
std::optional<std::string> parse_refused(std::span<const std::byte> payload);  // printable
std::optional<PeerAsk> parse_ask(std::span<const std::byte> payload);
std::optional<std::vector<bool>> parse_have(std::span<const std::byte> payload, std::size_t num_keys);
std::optional<PeerFetch> parse_fetch(std::span<const std::byte> payload);

// Checksum over the key, the tokens and the bytes of a row.
std::uint64_t peer_row_checksum(const TierKey& key, std::span<const TokenId> tokens,
                                std::span<const std::byte> bytes);

}  // namespace pagoda
