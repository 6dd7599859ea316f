#pragma once
// GgufFile: a GGUF v2/v3 file, memory-mapped: metadata and tensor views. Every count, length and offset
// is checked against the file before use. Knows nothing of architectures.
// Strings inside arrays (vocabularies) are views into the file: opening copies no token.
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
struct GgufArray {  // the vector that `element` names is filled, the others are empty
  GgufElement element = GgufElement::integer;
  std::vector<std::int64_t> integers;
  std::vector<double> floats;
  std::vector<std::string_view> strings;  // valid as long as a GgufFile of this file, or file(), lives
  std::vector<bool> booleans;
  std::size_t size() const { return integers.size() + floats.size() + strings.size() + booleans.size(); }
};

class GgufFile : public TensorFile {
 public:
  // not_found, or corrupt_data naming what is wrong. Only metadata is read; tensor bytes stay mapped.
  // A file whose tensors are of known but unsupported types opens: see check_supported().
  static Result<GgufFile> open(const std::string& path) { return open_as<GgufFile>(path); }
  // The same on bytes in memory, which must outlive the result: for fuzzing.
  static Result<GgufFile> parse(std::span<const std::byte> bytes);

  const std::map<std::string, GgufValue, std::less<>>& metadata() const { return metadata_; }
  // In place of what the file has.
  void set(const std::string& key, GgufValue value) { metadata_[key] = std::move(value); }
  // Null or nullopt when the key is absent or of another kind; number() takes integers too.
  std::optional<std::int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  const std::string* string(std::string_view key) const;
  const GgufArray* array(std::string_view key) const;

  // The tensors of another part of a split model become this one's, too; they are readable for as long as
  // that part's file() lives. corrupt_data: both have one of the same name.
  Status add_part(const GgufFile& part);
  // unimplemented, naming the first tensor that is not of a supported type and what is supported.
  Status check_supported() const;
  // unimplemented: it is no model, but an adapter, the vision or audio part of a model, what a quantiser
  // measured (imatrix), or a control vector.
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
