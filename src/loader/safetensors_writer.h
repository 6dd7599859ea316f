#pragma once
// SafetensorsWriter: writes the weights of a Hugging Face folder, tensor after tensor, in pieces of any size:
// model.safetensors or, where they are more than a shard may hold, shards and their index, named as
// transformers names them. Each file has its name only when it is whole (new_file.h).
// Source: the safetensors format, transformers' save_pretrained. Threads: one. Owner: whoever writes.
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
  // Into `folder`, which exists. invalid_argument: it cannot be written, or has such files.
  static Result<std::unique_ptr<SafetensorsWriter>> create(std::string folder,
                                                           std::vector<SafetensorsEntry> tensors,
                                                           std::int64_t shard_bytes = kShardBytes);

  // The next bytes of the tensors, one after the other; a piece belongs to one tensor.
  Status write(std::span<const std::byte> piece);
  // Once all are written.
  Status finish();

 private:
  SafetensorsWriter(std::string folder, std::vector<SafetensorsEntry> tensors, std::int64_t shard_bytes);
  std::string shard_name(std::size_t shard) const;
  Status open_shard();
  Status write_index() const;

  std::string folder_;
  std::vector<SafetensorsEntry> tensors_;
  std::vector<std::size_t> ends_;  // the number of tensors up to the end of each shard
  std::unique_ptr<NewFile> file_;
  std::size_t shard_ = 0, tensor_ = 0;  // being written
  std::int64_t written_ = 0;            // bytes of this tensor
};

}  // namespace pagoda
