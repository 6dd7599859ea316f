// Goal: a fingerprint is SHA-256, and tells where one value ends and the next name begins.
#include "kv_store/fingerprint.h"

#include <gtest/gtest.h>

namespace pagoda {
namespace {

KvDigest of(const std::vector<std::pair<std::string, std::string>>& parts) {
  Fingerprint fingerprint;
  for (const auto& [name, value] : parts) fingerprint.add(name, value);
  return fingerprint.finish();
}

TEST(Fingerprint, IsSha256) {
  EXPECT_EQ(hex(of({})), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Fingerprint, TellsAllPartsApart) {
  const KvDigest whole = of({{"a", "b"}, {"c", "d"}});
  EXPECT_EQ(whole, of({{"a", "b"}, {"c", "d"}}));
  EXPECT_NE(whole, of({{"a", "bc"}, {"", "d"}}));
  EXPECT_NE(whole, of({{"c", "d"}, {"a", "b"}}));
  EXPECT_NE(whole, of({{"a", "b"}}));
  EXPECT_NE(whole, of({{"ab", ""}, {"c", "d"}}));
}

TEST(Fingerprint, HexComesBack) {
  const KvDigest digest = of({{"x", "y"}});
  EXPECT_EQ(digest_of_hex(hex(digest)), digest);
  EXPECT_FALSE(digest_of_hex("00"));
  EXPECT_FALSE(digest_of_hex(std::string(63, '0') + "G"));
}

}  // namespace
}  // namespace pagoda
