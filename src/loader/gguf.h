#pragma once
// GgufFile: a GGUF v2/v3 file, memory-mapped: metadata and tensor views. Every count, length and offset
// is checked against the file before use. Knows nothing of architectures.
// Source: the GGUF specification (ggml/docs/gguf.md).
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"
#include "loader/mapped_file.h"
#include "tensor/tensor_view.h"

namespace pagoda {

struct GgufArray;
// Integers are widened to 64 bits, floats to double.
using GgufValue = std::variant<std::int64_t, std::uint64_t, double, bool, std::string, std::shared_ptr<GgufArray>>;
struct GgufArray {  // one of the four is filled, by element kind
  std::vector<std::int64_t> integers;
  std::vector<double> floats;
  std::vector<std::string> strings;
  std::vector<bool> booleans;
};

class GgufFile {
 public:
  // not_found, or corrupt_data naming what is wrong. Only metadata is read; tensor bytes stay mapped.
  static Result<GgufFile> open(const std::string& path);
  // The same on bytes in memory, which must outlive the result: for fuzzing.
  static Result<GgufFile> parse(std::span<const std::byte> bytes);

  const std::map<std::string, GgufValue, std::less<>>& metadata() const { return metadata_; }
  std::optional<std::int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  const std::string* string(std::string_view key) const;
  const GgufArray* array(std::string_view key) const;

  const std::map<std::string, TensorView, std::less<>>& tensors() const { return tensors_; }
  std::uint32_t version() const { return version_; }

 private:
  std::shared_ptr<MappedFile> file_;  // shared: model weights may keep the mapping alive
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::map<std::string, TensorView, std::less<>> tensors_;
  std::uint32_t version_ = 0;
};

}  // namespace pagoda
