// Any bytes as frames of another server: as each payload, and as a stream of frames. What is taken for a
// message is written again as it was.
// links: kv_peer
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "kv_peer/peer_frames.h"

namespace {

using Bytes = std::span<const std::byte>;

void expect_same(const std::vector<std::byte>& frame, Bytes payload) {
  if (!std::ranges::equal(std::span(frame).subspan(pagoda::PeerFrameHead::kBytes), payload)) std::abort();
}

void read(Bytes payload) {
  if (const auto hello = pagoda::parse_hello(payload)) expect_same(pagoda::encode_hello(1, *hello), payload);
  if (const auto ask = pagoda::parse_ask(payload)) expect_same(pagoda::encode_ask(1, *ask), payload);
  if (const auto fetch = pagoda::parse_fetch(payload)) expect_same(pagoda::encode_fetch(1, *fetch), payload);
  if (const auto why = pagoda::parse_refused(payload); why && why->size() != payload.size()) std::abort();
  if (payload.empty() || payload.size() > pagoda::kMaxPeerKeys / 8) return;
  const std::size_t num_keys = payload.size() * 8 - std::to_integer<unsigned>(payload[0]) % 8;
  if (const auto have = pagoda::parse_have(payload, num_keys))
    expect_same(pagoda::encode_have(1, *have), payload);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes bytes = std::as_bytes(std::span(data, size));
  read(bytes);
  while (bytes.size() >= pagoda::PeerFrameHead::kBytes) {
    const auto head = pagoda::parse_head(bytes.first<pagoda::PeerFrameHead::kBytes>());
    if (!head) break;
    bytes = bytes.subspan(pagoda::PeerFrameHead::kBytes);
    const Bytes payload = bytes.first(std::min<std::size_t>(head->size, bytes.size()));
    read(payload);
    bytes = bytes.subspan(payload.size());
  }
  return 0;
}
