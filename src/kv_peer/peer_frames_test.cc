// Goal: what one side writes the other reads, and nothing else is taken for it: each cut, each longer
// payload, each flipped bit of a head gives a refusal or another valid message, never more memory than has
// arrived.
#include "kv_peer/peer_frames.h"

#include <gtest/gtest.h>

namespace pagoda {
namespace {

using Bytes = std::vector<std::byte>;

PeerFrameHead head_of(const Bytes& frame) {
  const auto head = parse_head(std::span(frame).first<PeerFrameHead::kBytes>());
  EXPECT_TRUE(head);
  return head.value_or(PeerFrameHead{});
}
std::span<const std::byte> payload_of(const Bytes& frame) {
  return std::span(frame).subspan(PeerFrameHead::kBytes);
}
TierKey framed_key(std::uint64_t name, std::int32_t group = 0) {
  return {.chain = {name, 2, 3, ~name}, .group = group};
}

TEST(PeerFrames, WhatIsWrittenIsRead) {
  const Bytes hello = encode_hello(7, {.fingerprint = {1, 2, 3, 4}});
  EXPECT_EQ(head_of(hello), (PeerFrameHead{.type = PeerFrameType::hello, .number = 7, .size = 32}));
  EXPECT_EQ(parse_hello(payload_of(hello))->fingerprint, (KvDigest{1, 2, 3, 4}));
  EXPECT_EQ(head_of(encode_empty(PeerFrameType::lost, 9)),
            (PeerFrameHead{.type = PeerFrameType::lost, .number = 9, .size = 0}));

  const Bytes ask = encode_ask(8, {.patience_ms = 250, .keys = {framed_key(1), framed_key(2, 1)}});
  const auto asked = parse_ask(payload_of(ask));
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->patience_ms, 250u);
  EXPECT_EQ(asked->keys, (std::vector{framed_key(1), framed_key(2, 1)}));

  for (const std::size_t count : {1u, 7u, 8u, 9u, 300u}) {
    std::vector<bool> have(count);
    for (std::size_t i = 0; i < count; ++i) have[i] = i % 3 == 0;
    EXPECT_EQ(parse_have(payload_of(encode_have(1, have)), count), have);
  }
  const auto fetch =
      parse_fetch(payload_of(encode_fetch(3, {.key = framed_key(5, 2), .tokens = {1, -2, 3}})));
  ASSERT_TRUE(fetch);
  EXPECT_EQ(fetch->key, framed_key(5, 2));
  EXPECT_EQ(fetch->tokens, (std::vector<TokenId>{1, -2, 3}));

  const Bytes row = encode_row_head(4, 99, 1000);
  EXPECT_EQ(head_of(row), (PeerFrameHead{.type = PeerFrameType::row, .number = 4, .size = 1008}));
  EXPECT_EQ(row.size(), PeerFrameHead::kBytes + kPeerRowHead);
  EXPECT_EQ(parse_refused(payload_of(encode_refused(1, "no\x1b[31m")))->substr(0, 3), "no?");
}

TEST(PeerFrames, PayloadsThatAreCutOrLongerAreRefused) {
  const Bytes frames[] = {encode_hello(1, {}), encode_ask(1, {.keys = {framed_key(1), framed_key(2)}}),
                          encode_fetch(1, {.key = framed_key(1), .tokens = {1, 2, 3}})};
  const auto parses = [&](std::size_t which, std::span<const std::byte> payload) {
    if (which == 0) return parse_hello(payload).has_value();
    return which == 1 ? parse_ask(payload).has_value() : parse_fetch(payload).has_value();
  };
  for (std::size_t which = 0; which < std::size(frames); ++which) {
    const auto whole = payload_of(frames[which]);
    for (std::size_t size = 0; size < whole.size(); ++size) EXPECT_FALSE(parses(which, whole.first(size)));
    Bytes longer(whole.begin(), whole.end());
    longer.push_back(std::byte{0});
    EXPECT_FALSE(parses(which, longer));
    EXPECT_TRUE(parses(which, whole));
  }
  const Bytes have = encode_have(1, {true, false, true});
  EXPECT_FALSE(parse_have(payload_of(have), 9));
  EXPECT_FALSE(parse_have(payload_of(have), 2)) << "a bit behind the last key";
  EXPECT_TRUE(parse_have(payload_of(have), 3));
}

TEST(PeerFrames, HeadsAreHeldToTheirTypesLimits) {
  Bytes frame = encode_hello(1, {});
  const auto parsed = [&] { return parse_head(std::span(frame).first<PeerFrameHead::kBytes>()).has_value(); };
  EXPECT_TRUE(parsed());
  for (std::size_t bit = 0; bit < 64; ++bit) {  // magic and type
    Bytes other = frame;
    other[bit / 8] ^= std::byte{1} << (bit % 8);
    const auto head = parse_head(std::span(other).first<PeerFrameHead::kBytes>());
    if (head) EXPECT_NE(head->type, PeerFrameType::hello);
  }
  frame[12] = std::byte{33};  // one byte more than a fingerprint
  EXPECT_FALSE(parsed());
  frame[15] = std::byte{0x80};
  EXPECT_FALSE(parsed());
}

TEST(PeerFrames, AnAskSaysNothingImpossible) {
  EXPECT_FALSE(parse_ask(payload_of(encode_ask(1, {.keys = {}}))));
  EXPECT_FALSE(parse_ask(payload_of(encode_ask(1, {.keys = {framed_key(1, -1)}})))) << "a group below 0";
  EXPECT_FALSE(parse_fetch(payload_of(encode_fetch(1, {.key = framed_key(1), .tokens = {}}))));
}

TEST(PeerFrames, ARowsChecksumNamesItToo) {
  const std::vector<TokenId> tokens = {1, 2};
  const Bytes bytes(100, std::byte{5});
  const std::uint64_t sum = peer_row_checksum(framed_key(1), tokens, bytes);
  EXPECT_EQ(peer_row_checksum(framed_key(1), tokens, bytes), sum);
  EXPECT_NE(peer_row_checksum(framed_key(2), tokens, bytes), sum);
  EXPECT_NE(peer_row_checksum(framed_key(1, 1), tokens, bytes), sum);
  EXPECT_NE(peer_row_checksum(framed_key(1), std::vector<TokenId>{1, 3}, bytes), sum);
  EXPECT_NE(peer_row_checksum(framed_key(1), tokens, std::span(bytes).first(99)), sum);
}

}  // namespace
}  // namespace pagoda
