#pragma once
// Rows for tests of the segment store. The bytes of a row are derived from its key, so that a wrong byte is
// detected.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/random.h"
#include "kv_store/memory_files.h"
#include "kv_store/segment_store.h"

namespace pagoda::testing {

class StoppedClock final : public Clock {
 public:
  TimeNs now() const override { return time; }
  TimeNs time = 0;
};

// Lets a test keep ownership of the files while a store owns the layer.
class BorrowedFiles final : public FileLayer {
 public:
  explicit BorrowedFiles(MemoryFiles& files) : files_(files) {}
  Result<std::vector<StoredFileInfo>> list() const override { return files_.list(); }
  Result<std::unique_ptr<StoredFile>> open(const std::string& name, Access access) const override {
    return files_.open(name, access);
  }
  Result<std::unique_ptr<StoredFile>> create(const std::string& name) override { return files_.create(name); }
  Status remove(const std::string& name) override { return files_.remove(name); }
  Status sync_folder() override { return files_.sync_folder(); }

 private:
  MemoryFiles& files_;
};

struct TestRow {
  explicit TestRow(std::uint64_t number, std::uint64_t scope = 0, std::size_t size = 600)
      : key{.fingerprint = {7}, .hash = {number, mix64(number)}},
        tokens{static_cast<TokenId>(number), static_cast<TokenId>(number + 1)},
        owner{.tenant = 9, .session = scope} {
    bytes.resize(size);
    for (std::size_t at = 0; at < size; at += sizeof(std::uint64_t)) {
      const std::uint64_t word = random_bits(number, scope, at);
      std::memcpy(bytes.data() + at, &word, std::min(sizeof word, size - at));
    }
  }
  KvRow row() const { return {.key = key, .tokens = tokens, .bytes = bytes, .owner = owner}; }

  KvKey key;
  std::vector<TokenId> tokens;
  std::vector<std::byte> bytes;
  CacheOwner owner;
};

inline KvRowFilter rows_of(std::uint64_t scope) {
  return [scope](const KvKey&, const CacheOwner& owner) { return owner.session == scope; };
}
inline bool any_row(const KvKey&, const CacheOwner&) { return true; }

inline std::vector<KvStored> store(SegmentStore& store, const std::vector<TestRow>& rows) {
  std::vector<KvRow> views;
  for (const TestRow& row : rows) views.push_back(row.row());
  return store.store(views, "model");
}

// Fails the test if the store returns bytes other than the row's.
inline KvFetched fetch(SegmentStore& store, const TestRow& row) {
  std::vector<std::byte> out(row.bytes.size(), std::byte{0xEE});
  const KvFetched fetched = store.fetch(row.key, row.tokens, out);
  if (fetched == KvFetched::hit) EXPECT_EQ(out, row.bytes) << "a wrong byte";
  return fetched;
}

}  // namespace pagoda::testing
