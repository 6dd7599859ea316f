#pragma once
// SafetensorsWriter: writes the weights of a Hugging Face folder, tensor after tensor, in pieces of any size:
// model.safetensors or, if they exceed the size of a shard, shards and their index, named as in transformers.
// Each file gets its name only when it is complete (new_file.h).
// Source: the safetensors format, transformers' save_pretrained. Threads: one. Owner: the caller.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "loader/new_file.h"

namespace pagoda {

struct SafetensorsEntry {
  std::string name, type;  // "BF16"
  std::vector<std::int64_t> shape;
  std::int64_t bytes = 0;
};

class SafetensorsWriter {
 public:
  static constexpr std::int64_t kShardBytes = 5'000'000'000;
  // Writes into `folder`, which must exist. invalid_argument: not writable, or such files exist.
  static Result<std::unique_ptr<SafetensorsWriter>> create(std::string folder,
                                                           std::vector<SafetensorsEntry> tensors,
                                                           std::int64_t shard_bytes = kShardBytes);

  // Writes the next bytes of the tensors, in order; a piece must not span two tensors.
  Status write(std::span<const std::byte> piece);
  // Call after all bytes are written.
  Status finish();

 private:
  SafetensorsWriter(std::string folder, std::vector<SafetensorsEntry> tensors, std::int64_t shard_bytes);
  std::string shard_name(std::size_t shard) const;
  Status open_shard();
  Status write_index() const;

  std::string folder_;
  std::vector<SafetensorsEntry> tensors_;
  std::vector<std::size_t> ends_;  // cumulative number of tensors at the end of each shard
  std::unique_ptr<NewFile> file_;
  std::size_t shard_ = 0, tensor_ = 0;  // in progress
  std::int64_t written_ = 0;            // bytes of this tensor so far
};

}  // namespace pagoda
