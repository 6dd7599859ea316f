// Goal: a header is read as it was written, at its place alone, and any changed byte is noticed.
#include "kv_store/segment_format.h"

#include "kv_store/store_test_support.h"

namespace pagoda {
namespace {

SegmentBatch small_batch() {
  SegmentBatch batch{.offset = 8192, .label = "a model"};
  for (std::uint64_t i = 1; i <= 3; ++i) {
    const testing::TestRow row(i, i % 2, 100 * i);
    batch.rows.push_back({.key = row.key,
                          .tokens = row.tokens,
                          .bytes = row.bytes.size(),
                          .checksum = row_checksum(row.key, row.tokens, row.bytes),
                          .cost_ms = static_cast<std::uint32_t>(i)});
  }
  lay_out(batch);
  return batch;
}

TEST(SegmentFormat, AHeaderComesBack) {
  SegmentBatch batch = small_batch();
  batch.rows[1].erased = true;
  const std::vector<std::byte> bytes = encode_header(batch, 5);
  ASSERT_EQ(bytes.size(), 4096);
  EXPECT_EQ(batch.bytes, 4 * 4096);
  const auto read = decode_header(bytes, 5, 8192, nullptr);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->label, "a model");
  EXPECT_EQ(read->bytes, batch.bytes);
  for (const std::size_t i : {0, 2}) {
    EXPECT_EQ(read->rows[i].key, batch.rows[i].key);
    EXPECT_EQ(read->rows[i].tokens, batch.rows[i].tokens);
    EXPECT_EQ(read->rows[i].offset, batch.rows[i].offset);
    EXPECT_EQ(read->rows[i].bytes, 100 * (i + 1));
    EXPECT_EQ(read->rows[i].checksum, batch.rows[i].checksum);
    EXPECT_EQ(read->rows[i].cost_ms, i + 1);
  }
  EXPECT_TRUE(read->rows[1].erased);
  EXPECT_EQ(read->rows[1].key, KvKey());
  EXPECT_EQ(read->rows[1].tokens, std::vector<TokenId>(2)) << "what was erased is not there";
}

TEST(SegmentFormat, ElsewhereItIsNone) {
  const std::vector<std::byte> bytes = encode_header(small_batch(), 5);
  EXPECT_FALSE(decode_header(bytes, 6, 8192, nullptr));
  EXPECT_FALSE(decode_header(bytes, 5, 4096, nullptr));
  EXPECT_FALSE(decode_header(std::span(bytes).first(100), 5, 8192, nullptr));
  std::uint64_t need = 0;
  EXPECT_FALSE(decode_header(std::span(bytes).first(300), 5, 8192, &need));
  EXPECT_EQ(need, 4096);
}

TEST(SegmentFormat, EveryChangedBitShows) {
  const std::vector<std::byte> whole = encode_header(small_batch(), 5);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    auto bytes = whole;
    bytes[at] ^= static_cast<std::byte>(1 << at % 8);
    EXPECT_FALSE(decode_header(bytes, 5, 8192, nullptr)) << at;
  }
}

TEST(SegmentFormat, Names) {
  EXPECT_EQ(segment_name(255), "00000000000000ff.kv");
  EXPECT_EQ(segment_number("00000000000000ff.kv"), 255);
  for (const char* name : {"00000000000000FF.kv", "ff.kv", "00000000000000ff.kvx", "-0000000000000ff.kv",
                           "lock", "000000000000 0ff.kv", ""})
    EXPECT_FALSE(segment_number(name)) << name;
}

}  // namespace
}  // namespace pagoda
