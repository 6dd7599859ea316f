#pragma once
// GgufFile: a GGUF v2/v3 file, memory-mapped: metadata and tensor views. Every count, length and offset is
// checked against the file before use. Knows nothing of architectures. Strings inside arrays (vocabularies)
// are views into the file: opening copies no token.
// Source: the GGUF specification (ggml/docs/gguf.md).
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"
#include "loader/tensor_file.h"

namespace pagoda {

struct GgufArray;
// Integers are widened to 64 bits, floats to double.
using GgufValue =
    std::variant<std::int64_t, std::uint64_t, double, bool, std::string, std::shared_ptr<GgufArray>>;

enum class GgufElement { integer, floating, string, boolean };
struct GgufArray {  // only the vector named by `element` is filled
  GgufElement element = GgufElement::integer;
  std::vector<std::int64_t> integers;
  std::vector<double> floats;
  std::vector<std::string_view> strings;  // valid while a GgufFile of this file, or file(), exists
  std::vector<bool> booleans;
  std::size_t size() const { return integers.size() + floats.size() + strings.size() + booleans.size(); }
};

class GgufFile : public TensorFile {
 public:
  // not_found, or corrupt_data naming the fault. Only metadata is read; tensor bytes stay mapped. A file with
  // tensors of known but unsupported types opens: see check_supported().
  static Result<GgufFile> open(const std::string& path) { return open_as<GgufFile>(path); }
  // The same for bytes in memory, which must outlive the result; for fuzzing.
  static Result<GgufFile> parse(std::span<const std::byte> bytes);

  const std::map<std::string, GgufValue, std::less<>>& metadata() const { return metadata_; }
  // Sets a value in place of the file's.
  void set(const std::string& key, GgufValue value) { metadata_[key] = std::move(value); }
  // Return null or nullopt if the key is absent or of another type; number() also accepts integers.
  std::optional<std::int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  const std::string* string(std::string_view key) const;
  const GgufArray* array(std::string_view key) const;

  // Adds the tensors of another part of a split model; they are readable while that part's file() exists.
  // corrupt_data: both parts have a tensor of the same name.
  Status add_part(const GgufFile& part);
  // unimplemented: names the first tensor of an unsupported type, and the supported types.
  Status check_supported() const;
  // unimplemented: the file is not a model, but an adapter, the vision or audio part of a model, an
  // importance matrix, or a control vector.
  Status check_is_model() const;
  bool is_importance_matrix() const;
  bool is_adapter() const;

  std::uint32_t version() const { return version_; }

 private:
  friend class TensorFile;
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::uint32_t version_ = 0;
};

}  // namespace pagoda
