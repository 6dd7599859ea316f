#include "kv_peer/peer_frames.h"

#include <algorithm>
#include <cstring>

#include "base/byte_cursor.h"
#include "base/check.h"
#include "base/xxh64.h"

namespace pagoda {
namespace {

constexpr std::uint32_t kMagic = 0x31564B50;  // "PKV1"
constexpr std::size_t kKeyBytes = 36;
constexpr std::size_t kAskHead = 8, kFetchHead = kKeyBytes + 4;

class FrameWriter {
 public:
  FrameWriter(PeerFrameType type, std::uint32_t number, std::size_t payload) {
    bytes_.reserve(PeerFrameHead::kBytes + payload);
    put(kMagic);
    put(static_cast<std::uint32_t>(type));
    put(number);
    put(static_cast<std::uint32_t>(payload));
  }
  template <class T>
  void put(const T& value) {
    put_bytes(std::as_bytes(std::span(&value, 1)));
  }
  void put(const TierKey& key) {
    put(key.chain);
    put(key.group);
  }
  void put_bytes(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

bool read_key(ByteCursor& in, TierKey& key) {
  return in.read(key.chain) && in.read(key.group) && key.group >= 0;
}

// Maximum payload size for this type; nullopt if the type is unknown.
std::optional<std::size_t> most_bytes(std::uint32_t type) {
  switch (static_cast<PeerFrameType>(type)) {
    case PeerFrameType::hello:
      return sizeof(KvDigest);
    case PeerFrameType::welcome:
    case PeerFrameType::lost:
      return 0;
    case PeerFrameType::refused:
      return kMaxPeerRefusal;
    case PeerFrameType::ask:
      return kAskHead + kMaxPeerKeys * kKeyBytes;
    case PeerFrameType::have:
      return kMaxPeerKeys / 8;
    case PeerFrameType::fetch:
      return kFetchHead + kMaxPeerTokens * sizeof(TokenId);
    case PeerFrameType::row:
      return kPeerRowHead + kMaxPeerRow;
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::byte> encode_hello(std::uint32_t number, const PeerHello& hello) {
  FrameWriter out(PeerFrameType::hello, number, sizeof hello.fingerprint);
  out.put(hello.fingerprint);
  return out.take();
}

std::vector<std::byte> encode_refused(std::uint32_t number, std::string_view why) {
  why = why.substr(0, kMaxPeerRefusal);
  FrameWriter out(PeerFrameType::refused, number, why.size());
  out.put_bytes(std::as_bytes(std::span(why.data(), why.size())));
  return out.take();
}

std::vector<std::byte> encode_ask(std::uint32_t number, const PeerAsk& ask) {
  CHECK(ask.keys.size() <= kMaxPeerKeys);
  FrameWriter out(PeerFrameType::ask, number, kAskHead + ask.keys.size() * kKeyBytes);
  out.put(ask.patience_ms);
  out.put(static_cast<std::uint32_t>(ask.keys.size()));
  for (const TierKey& key : ask.keys) out.put(key);
  return out.take();
}

std::vector<std::byte> encode_have(std::uint32_t number, const std::vector<bool>& have) {
  CHECK(have.size() <= kMaxPeerKeys);
  std::vector<std::byte> bits((have.size() + 7) / 8);
  for (std::size_t i = 0; i < have.size(); ++i)
    if (have[i]) bits[i / 8] |= std::byte{1} << (i % 8);
  FrameWriter out(PeerFrameType::have, number, bits.size());
  out.put_bytes(bits);
  return out.take();
}

std::vector<std::byte> encode_fetch(std::uint32_t number, const PeerFetch& fetch) {
  CHECK(fetch.tokens.size() <= kMaxPeerTokens);
  FrameWriter out(PeerFrameType::fetch, number, kFetchHead + fetch.tokens.size() * sizeof(TokenId));
  out.put(fetch.key);
  out.put(static_cast<std::uint32_t>(fetch.tokens.size()));
  out.put_bytes(std::as_bytes(std::span(fetch.tokens)));
  return out.take();
}

std::vector<std::byte> encode_row_head(std::uint32_t number, std::uint64_t checksum, std::size_t row_bytes) {
  CHECK(row_bytes <= kMaxPeerRow);
  FrameWriter out(PeerFrameType::row, number, kPeerRowHead + row_bytes);
  out.put(checksum);
  return out.take();
}

std::vector<std::byte> encode_empty(PeerFrameType type, std::uint32_t number) {
  CHECK(most_bytes(static_cast<std::uint32_t>(type)) == 0);
  return FrameWriter(type, number, 0).take();
}

std::optional<PeerFrameHead> parse_head(std::span<const std::byte, PeerFrameHead::kBytes> bytes) {
  ByteCursor in(bytes);
  std::uint32_t magic = 0, type = 0;
  PeerFrameHead head;
  if (!in.read(magic) || !in.read(type) || !in.read(head.number) || !in.read(head.size)) return std::nullopt;
  const std::optional<std::size_t> most = most_bytes(type);
  if (magic != kMagic || type > 0xff || !most || head.size > *most) return std::nullopt;
  head.type = static_cast<PeerFrameType>(type);
  return head;
}

std::optional<PeerHello> parse_hello(std::span<const std::byte> payload) {
  ByteCursor in(payload);
  PeerHello hello;
  if (!in.read(hello.fingerprint) || in.remaining() > 0) return std::nullopt;
  return hello;
}

std::optional<std::string> parse_refused(std::span<const std::byte> payload) {
  if (payload.size() > kMaxPeerRefusal) return std::nullopt;
  std::string text(reinterpret_cast<const char*>(payload.data()), payload.size());
  std::ranges::replace_if(text, [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

std::optional<PeerAsk> parse_ask(std::span<const std::byte> payload) {
  ByteCursor in(payload);
  PeerAsk ask;
  std::uint32_t count = 0;
  if (!in.read(ask.patience_ms) || !in.read(count)) return std::nullopt;
  if (count == 0 || count > kMaxPeerKeys || in.remaining() != count * kKeyBytes) return std::nullopt;
  ask.keys.resize(count);
  for (TierKey& key : ask.keys)
    if (!read_key(in, key)) return std::nullopt;
  return ask;
}

std::optional<std::vector<bool>> parse_have(std::span<const std::byte> payload, std::size_t num_keys) {
  if (payload.size() != (num_keys + 7) / 8) return std::nullopt;
  std::vector<bool> have(num_keys);
  for (std::size_t i = 0; i < payload.size() * 8; ++i) {
    const bool set = (payload[i / 8] & (std::byte{1} << (i % 8))) != std::byte{};
    if (i >= num_keys && set) return std::nullopt;
    if (i < num_keys) have[i] = set;
  }
  return have;
}

std::optional<PeerFetch> parse_fetch(std::span<const std::byte> payload) {
  ByteCursor in(payload);
  PeerFetch fetch;
  std::uint32_t count = 0;
  if (!read_key(in, fetch.key) || !in.read(count)) return std::nullopt;
  if (count == 0 || count > kMaxPeerTokens || in.remaining() != count * sizeof(TokenId)) return std::nullopt;
  fetch.tokens.resize(count);
  for (TokenId& token : fetch.tokens)
    if (!in.read(token)) return std::nullopt;
  return fetch;
}

std::uint64_t peer_row_checksum(const TierKey& key, std::span<const TokenId> tokens,
                                std::span<const std::byte> bytes) {
  const std::uint64_t group = xxh64(std::as_bytes(std::span(&key.group, 1)));
  const std::uint64_t name = xxh64(std::as_bytes(std::span(key.chain)), group);
  return xxh64(bytes, xxh64(std::as_bytes(tokens), name));
}

}  // namespace pagoda
