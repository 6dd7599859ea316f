#include "kv_events/event_encoding.h"

#include <gtest/gtest.h>

#include "kv_events/kv_events_config.h"
#include "kv_events/msgpack_writer.h"

namespace pagoda {
namespace {

std::string hex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) out.append({kDigits[static_cast<unsigned char>(c) >> 4], kDigits[c & 15]});
  return out;
}

// Against the bytes that the specification gives.
TEST(MsgpackWriter, ShortestForms) {
  const auto integer = [](std::uint64_t value) {
    std::string out;
    MsgpackWriter(out).unsigned_integer(value);
    return hex(out);
  };
  EXPECT_EQ(integer(0), "00");
  EXPECT_EQ(integer(127), "7f");
  EXPECT_EQ(integer(128), "cc80");
  EXPECT_EQ(integer(255), "ccff");
  EXPECT_EQ(integer(256), "cd0100");
  EXPECT_EQ(integer(65535), "cdffff");
  EXPECT_EQ(integer(65536), "ce00010000");
  EXPECT_EQ(integer(0xffffffff), "ceffffffff");
  EXPECT_EQ(integer(0x100000000), "cf0000000100000000");
  EXPECT_EQ(integer(~0ull), "cfffffffffffffffff");
  std::string out;
  MsgpackWriter writer(out);
  writer.array(15);
  writer.array(16);
  writer.array(65536);
  writer.nil();
  writer.float64(1.5);
  writer.text("ab");
  EXPECT_EQ(hex(out), "9fdc0010dd00010000c0cb3ff8000000000000a26162");
  out.clear();
  writer.text(std::string(32, 'x'));
  EXPECT_EQ(hex(out.substr(0, 2)), "d920");
  out.clear();
  writer.text(std::string(300, 'x'));
  EXPECT_EQ(hex(out.substr(0, 3)), "da012c");
}

TEST(EventEncoding, NamesTheAdapterOfItsBlocks) {
  const auto encoded = [](std::int32_t id, std::string name) {
    const CacheEventBatch batch{.events = {{.kind = CacheEvent::Kind::stored,
                                            .hashes = {1},
                                            .parent = {},
                                            .salt = {},
                                            .tokens = {5},
                                            .lora_id = id,
                                            .lora_name = std::move(name)}}};
    return encode(batch, 1);
  };
  const std::string adapted = encoded(3, "sql"), plain = encoded(0, "");
  EXPECT_NE(adapted.find("\xa7lora_id\x03"), std::string::npos) << hex(adapted);
  EXPECT_NE(adapted.find("\xa9lora_name\xa3sql"), std::string::npos) << hex(adapted);
  EXPECT_NE(plain.find("\xa7lora_id\xc0"), std::string::npos) << hex(plain);
  EXPECT_NE(plain.find("\xa9lora_name\xc0"), std::string::npos) << hex(plain);
}

TEST(EventEncoding, ABatch) {
  const CacheEventBatch batch{
      .number = 7,
      .unix_seconds = 1.5,
      .events = {
          {.kind = CacheEvent::Kind::stored,
           .hashes = {1, 2},
           .parent = 300,
           .salt = {},
           .tokens = {5, 6, 7, 8}},
          {.kind = CacheEvent::Kind::stored, .hashes = {3, 4}, .parent = {}, .salt = "s", .tokens = {9}},
          {.kind = CacheEvent::Kind::removed, .hashes = {2}, .parent = {}, .salt = {}, .tokens = {}},
          {.kind = CacheEvent::Kind::cleared, .hashes = {}, .parent = {}, .salt = {}, .tokens = {}}}};
  // msgspec's bytes for vLLM's own structures with these values.
  EXPECT_EQ(hex(encode(batch, 2)),
            "93cb3ff80000000000009488a474797065ab426c6f636b53746f726564ac626c6f636b5f68617368"
            "6573920102b1706172656e745f626c6f636b5f68617368cd012ca9746f6b656e5f69647394050607"
            "08aa626c6f636b5f73697a6502a76c6f72615f6964c0a66d656469756da3475055a96c6f72615f6e"
            "616d65c089a474797065ab426c6f636b53746f726564ac626c6f636b5f686173686573920304b170"
            "6172656e745f626c6f636b5f68617368c0a9746f6b656e5f6964739109aa626c6f636b5f73697a65"
            "02a76c6f72615f6964c0a66d656469756da3475055a96c6f72615f6e616d65c0aa65787472615f6b"
            "6579739291a173c083a474797065ac426c6f636b52656d6f766564ac626c6f636b5f686173686573"
            "9102a66d656469756da347505581a474797065b0416c6c426c6f636b73436c656172656400");
}

TEST(EventEncoding, ATiersEventsHaveHashesAlone) {
  const CacheEventBatch batch{.number = 0,
                              .unix_seconds = 1.5,
                              .data_parallel_rank = 3,
                              .events = {{.kind = CacheEvent::Kind::stored,
                                          .hashes = {1, 2},
                                          .parent = {},
                                          .salt = {},
                                          .tokens = {},
                                          .medium = "CPU"},
                                         {.kind = CacheEvent::Kind::removed,
                                          .hashes = {2},
                                          .parent = {},
                                          .salt = {},
                                          .tokens = {},
                                          .medium = "DISK"}}};
  // msgspec's bytes for what vLLM's offloading connector gives its structures.
  EXPECT_EQ(hex(encode(batch, 2)),
            "93cb3ff80000000000009288a474797065ab426c6f636b53746f726564ac626c6f636b5f68617368"
            "6573920102b1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f69647390aa626c6f63"
            "6b5f73697a6500a76c6f72615f6964c0a66d656469756da3435055a96c6f72615f6e616d65c083a4"
            "74797065ac426c6f636b52656d6f766564ac626c6f636b5f6861736865739102a66d656469756da4"
            "4449534b03");
}

TEST(KvEventsConfig, EachRankHasEndpointsOfItsOwn) {
  const auto endpoint = [](const std::string& of, std::int32_t rank) { return endpoint_of_rank(of, rank); };
  EXPECT_EQ(endpoint("tcp://*:5557", 0), "tcp://*:5557");
  EXPECT_EQ(endpoint("tcp://*:5557", 3), "tcp://*:5560");
  EXPECT_EQ(endpoint("tcp://[::]:5557", 1), "tcp://[::]:5558");
  EXPECT_EQ(endpoint("tcp://127.0.0.1:*", 1), "tcp://127.0.0.1:*") << "the system chooses";
  EXPECT_EQ(endpoint("tcp://127.0.0.1:0", 1), "tcp://127.0.0.1:0");
  EXPECT_EQ(endpoint("tcp://host", 1), "tcp://host");
  EXPECT_EQ(endpoint("ipc:///tmp/events", 2), "ipc:///tmp/events_dp2");
  EXPECT_EQ(endpoint("inproc://events", 1), "inproc://events_dp1");
  EXPECT_EQ(endpoint("", 1), "");
  KvEventsConfig config;
  config.replay_endpoint = "tcp://*:6000";
  const KvEventsConfig second = config_of_rank(config, 1);
  EXPECT_EQ(second.endpoint, "tcp://*:5558");
  EXPECT_EQ(second.replay_endpoint, "tcp://*:6001");
  EXPECT_EQ(second.data_parallel_rank, 1);
}

TEST(EventEncoding, AHashIsTheDigestsEnd) {
  BlockHasher hasher("model");
  const BlockHash hash = hasher.root("salt");
  const auto* bytes = reinterpret_cast<const unsigned char*>(hash.words.data());
  std::uint64_t expected = 0;
  for (int i = 24; i < 32; ++i) expected = expected * 256 + bytes[i];
  EXPECT_EQ(external_hash(hash), expected);
}

}  // namespace
}  // namespace pagoda
