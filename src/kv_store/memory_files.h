#pragma once
// MemoryFiles: a folder in memory that knows what was synced. crash_image() is the folder as a machine may
// find it after its power failed: everything that was synced, and of the rest any part, in any order, with
// sectors torn in their middle. Also fails, or falls short, when told to.
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

  // The folder after a crash now. Nothing in the image is pending.
  std::unique_ptr<MemoryFiles> crash_image(std::mt19937_64& random) const;

  // Called before every operation that changes something.
  std::function<void()> on_change = {};
  // Answers whether the next operation fails; `change` tells writes from reads.
  std::function<bool(bool change)> fails = {};
  std::int64_t max_bytes = std::int64_t{1} << 40;  // the disk is full beyond
  bool short_reads = false;                        // reads end at an arbitrary byte

  std::vector<std::byte>& bytes_of(const std::string& name);  // to edit; CHECKs that it is there
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
