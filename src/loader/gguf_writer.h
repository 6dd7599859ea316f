#pragma once
// GgufWriter: writes a GGUF file (version 3): the header first, then tensor after tensor in pieces of any
// size. The file gets its name only when it is complete (new_file.h).
// Source: the GGUF specification (ggml/docs/gguf.md). Threads: one. Owner: the caller.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "loader/gguf.h"
#include "loader/new_file.h"
#include "tensor/dtype.h"

namespace pagoda {

// One metadata entry in the file's encoding.
struct GgufEntry {
  std::string key;
  std::string encoded;  // type and value
};
// Returns the entries of a mapped file, in its order.
std::vector<GgufEntry> metadata_entries(const GgufFile& file);
GgufEntry integer_entry(std::string key, std::uint32_t value);
GgufEntry number_entry(std::string key, float value);
GgufEntry flag_entry(std::string key, bool value);
GgufEntry text_entry(std::string key, std::string_view value);
GgufEntry integers_entry(std::string key, std::span<const std::int32_t> values);
GgufEntry numbers_entry(std::string key, std::span<const float> values);
GgufEntry flags_entry(std::string key, const std::vector<bool>& values);
GgufEntry texts_entry(std::string key, std::span<const std::string_view> values);

struct GgufTensorEntry {
  std::string name;
  std::vector<std::int64_t> shape;  // outermost first
  DType dtype = DType::f32;
  std::int64_t bytes() const;
};

// Returns the file's content up to the bytes of the tensors.
std::string gguf_head(std::span<const GgufEntry> entries, std::span<const GgufTensorEntry> tensors,
                      std::int64_t alignment);

class GgufWriter {
 public:
  // invalid_argument: `path` exists or cannot be written.
  static Result<std::unique_ptr<GgufWriter>> create(const std::string& path,
                                                    std::span<const GgufEntry> entries,
                                                    std::vector<GgufTensorEntry> tensors,
                                                    std::int64_t alignment);

  // Writes the next bytes of the tensors, in order; a piece must not span two tensors.
  Status write(std::span<const std::byte> piece);
  // Call after all bytes are written.
  Status finish();

 private:
  GgufWriter(std::unique_ptr<NewFile> file, std::vector<GgufTensorEntry> tensors, std::int64_t alignment)
      : file_(std::move(file)), tensors_(std::move(tensors)), alignment_(alignment) {}

  std::unique_ptr<NewFile> file_;
  std::vector<GgufTensorEntry> tensors_;
  std::int64_t alignment_;
  std::size_t tensor_ = 0;    // the tensor being written
  std::int64_t written_ = 0;  // bytes of this tensor so far
};

}  // namespace pagoda
