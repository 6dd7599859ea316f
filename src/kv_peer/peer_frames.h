#pragma once
// The messages between servers that share K/V: a head of 16 bytes and a payload. One side asks, the other
// answers each question once, in order:
//     hello (fingerprint)     -> welcome | refused (why)
//     ask (keys)              -> have (a bit for each key)
//     fetch (key, tokens)     -> row (checksum, bytes) | lost
// Numbers are little-endian. Parsers trust no byte: what they return is whole and within the limits below,
// and nothing is allocated beyond what has arrived. Threads: any.
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
  std::uint32_t number = 0;  // an answer has its question's
  std::uint32_t size = 0;    // bytes of the payload
  bool operator==(const PeerFrameHead&) const = default;
};

struct PeerHello {
  KvDigest fingerprint{};  // both sides compute the same bits
};
struct PeerAsk {
  std::uint32_t patience_ms = 0;  // the answer is of no use later
  std::vector<TierKey> keys;
};
struct PeerFetch {
  TierKey key;
  std::vector<TokenId> tokens;
};

constexpr std::size_t kMaxPeerKeys = 16384;      // in one question
constexpr std::size_t kMaxPeerTokens = 1 << 16;  // in a row
constexpr std::size_t kMaxPeerRefusal = 256;     // bytes
constexpr std::size_t kPeerRowHead = 8;          // the checksum, before a row's bytes
constexpr std::size_t kMaxPeerRow = std::size_t{1} << 30;

// A frame with its head. That of a row ends behind the checksum: its bytes follow from where they lie.
std::vector<std::byte> encode_hello(std::uint32_t number, const PeerHello& hello);
std::vector<std::byte> encode_refused(std::uint32_t number, std::string_view why);
std::vector<std::byte> encode_ask(std::uint32_t number, const PeerAsk& ask);
std::vector<std::byte> encode_have(std::uint32_t number, const std::vector<bool>& have);
std::vector<std::byte> encode_fetch(std::uint32_t number, const PeerFetch& fetch);
std::vector<std::byte> encode_row_head(std::uint32_t number, std::uint64_t checksum, std::size_t row_bytes);
std::vector<std::byte> encode_empty(PeerFrameType type, std::uint32_t number);  // welcome, lost

// nullopt: no head of such a frame, or a payload that is larger than its type allows.
std::optional<PeerFrameHead> parse_head(std::span<const std::byte, PeerFrameHead::kBytes> bytes);
// These read whole payloads. nullopt: malformed.
std::optional<PeerHello> parse_hello(std::span<const std::byte> payload);
std::optional<std::string> parse_refused(std::span<const std::byte> payload);  // printable
std::optional<PeerAsk> parse_ask(std::span<const std::byte> payload);
std::optional<std::vector<bool>> parse_have(std::span<const std::byte> payload, std::size_t num_keys);
std::optional<PeerFetch> parse_fetch(std::span<const std::byte> payload);

// The checksum of a row: of its key, its tokens and its bytes.
std::uint64_t peer_row_checksum(const TierKey& key, std::span<const TokenId> tokens,
                                std::span<const std::byte> bytes);

}  // namespace pagoda
