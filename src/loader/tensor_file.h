#pragma once
// TensorFile: the common part of GGUF and safetensors files: a mapping, and the tensors listed in it. gguf.h
// and safetensors.h have the formats' own parts and parsers.
// Threads: any may read.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/assign_or_return.h"
#include "loader/mapped_file.h"
#include "loader/printable.h"
#include "tensor/tensor_view.h"

namespace pagoda {

// One tensor as the file lists it, whether or not its type is supported.
struct FileTensor {
  std::string name;
  std::string_view type;            // "Q4_1", "BF16", "I64"
  std::optional<DType> dtype;       // nullopt: weights of this type are not supported as stored
  std::vector<std::int64_t> shape;  // outermost first
  const std::byte* data = nullptr;
  std::int64_t bytes = 0;

  std::int64_t elements() const {
    return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies());
  }
};

inline std::span<const std::byte> stored_bytes(const FileTensor& tensor) {
  return {tensor.data, static_cast<std::size_t>(tensor.bytes)};
}
// Detects tensors without effect: biases of 0, zero points of 0, group indices of -1.
inline bool all_bytes_are(std::span<const std::byte> bytes, std::byte value) {
  return std::ranges::all_of(bytes, [value](std::byte byte) { return byte == value; });
}

class TensorFile {
 public:
  // Tensors with a dtype, by name.
  const std::map<std::string, TensorView, std::less<>>& tensors() const { return tensors_; }
  // All tensors; GGUF: in the file's order, safetensors: in the order of their bytes.
  const std::vector<FileTensor>& tensor_list() const { return tensor_list_; }
  // Keeps views into the mapping valid; null after parse().
  const std::shared_ptr<MappedFile>& file() const { return file_; }
  // Returns MappedFile::identity() over everything before the first tensor's bytes.
  std::string identity() const;

 protected:
  template <class File>
  static Result<File> open_as(const std::string& path) {
    PAGODA_ASSIGN_OR_RETURN(std::shared_ptr<MappedFile> mapped, MappedFile::open(path));
    Result<File> file = File::parse(mapped->bytes());
    if (!file) return file.error().annotate(printable(path));
    file->file_ = std::move(mapped);
    return file;
  }

  std::shared_ptr<MappedFile> file_;  // shared, since model weights may keep the mapping alive
  std::map<std::string, TensorView, std::less<>> tensors_;
  std::vector<FileTensor> tensor_list_;
};

}  // namespace pagoda
