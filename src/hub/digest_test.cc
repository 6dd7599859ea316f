#include "hub/digest.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

namespace pagoda {
namespace {

// The numbers: `sha256sum` and `git hash-object` of a file that holds "hello\n".
TEST(Digest, OfAFile) {
  const std::string path = ::testing::TempDir() + "pagoda_digest_test";
  std::ofstream(path, std::ios::binary) << "hello\n";
  EXPECT_EQ(*file_digest(path, DigestKind::sha256),
            "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03");
  EXPECT_EQ(*file_digest(path, DigestKind::git_blob_sha1), "ce013625030ba8dba906f756967f9e9ca394464a");
  std::remove(path.c_str());
  EXPECT_FALSE(file_digest(path, DigestKind::sha256));
}

}  // namespace
}  // namespace pagoda
