#pragma once
// MemoryFiles: an in-memory folder that tracks what was synced. crash_image() returns the folder as it could
// look after a power failure: everything that was synced, plus any part of the remaining changes, in any
// order, with torn sectors. It can also inject errors and short reads.
// Threads: one at a time. For tests and the fuzzer; nothing here is durable.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kv_store/file_layer.h"

namespace pagoda {

class MemoryFiles final : public FileLayer {
 public:
  MemoryFiles() = default;

  Result<std::vector<StoredFileInfo>> list() const override;
  Result<std::unique_ptr<StoredFile>> open(const std::string& name, Access access) const override;
  Result<std::unique_ptr<StoredFile>> create(const std::string& name) override;
  Status remove(const std::string& name) override;
  Status sync_folder() override;

  // Returns the folder after a crash at this moment. The image has no pending changes.
  std::unique_ptr<MemoryFiles> crash_image(std::mt19937_64& random) const;

  // Called before every operation that modifies the folder.
  std::function<void()> on_change = {};
  // Returns true if the next operation should fail. `change` is true for writes and false for reads.
  std::function<bool(bool change)> fails = {};
  std::int64_t max_bytes = std::int64_t{1} << 40;  // capacity of the simulated disk
  bool short_reads = false;                        // reads end at an arbitrary byte

  std::vector<std::byte>& bytes_of(const std::string& name);  // for editing; CHECKs that the file exists
  void put(const std::string& name, std::vector<std::byte> bytes);
  std::int64_t total_bytes() const;

 private:
  struct Change {
    std::uint64_t offset = 0;
    std::vector<std::byte> bytes;
    bool truncates = false;  // to `offset`
  };
  struct Node {
    std::vector<std::byte> now, synced;
    std::vector<Change> pending;
  };
  using Names = std::map<std::string, std::shared_ptr<Node>>;
  class File;

  Status before_change() const;
  Status change(Node& node, Change change) const;
  static std::vector<std::byte> torn(const Node& node, std::mt19937_64& random);

  Names now_, synced_;
};

}  // namespace pagoda
