#include "loader/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/byte_cursor.h"
#include "base/strings.h"
#include "loader/ggml_types.h"
#include "loader/no_model_bytes.h"
#include "loader/printable.h"

namespace pagoda {
namespace {

// Far above any real model (262,144 tokens, 512,000 merges), and small enough that no file can make the
// parser allocate more than a few hundred MB.
constexpr std::uint64_t kMaxEntries = std::uint64_t{1} << 20;        // metadata entries; tensors
constexpr std::uint64_t kMaxNameBytes = 65535;                       // the specification's limit for keys
constexpr std::uint64_t kMaxStringBytes = std::uint64_t{16} << 20;   // one value outside arrays
constexpr std::uint64_t kMaxArrayElements = std::uint64_t{1} << 24;  // all arrays together
constexpr std::uint32_t kMaxDimensions = 4;
constexpr std::uint64_t kDefaultAlignment = 32;
constexpr std::uint64_t kMaxAlignment = std::uint64_t{1} << 30;

enum ValueType : std::uint32_t {
  kUint8 = 0,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64,
  kNumValueTypes
};

// Bytes per value; a minimum for strings and arrays.
constexpr std::uint64_t kValueBytes[kNumValueTypes] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};

// Calls take(zero of its type) if the type is a number; returns false otherwise, or if GGUF has no such type.
template <class Take>
bool with_number(std::uint32_t type, const Take& take) {
  const auto when = [&](std::uint32_t each, auto zero) { return type == each && (take(zero), true); };
  return when(kUint8, std::uint8_t{}) || when(kInt8, std::int8_t{}) || when(kUint16, std::uint16_t{}) ||
         when(kInt16, std::int16_t{}) || when(kUint32, std::uint32_t{}) || when(kInt32, std::int32_t{}) ||
         when(kUint64, std::uint64_t{}) || when(kInt64, std::int64_t{}) || when(kFloat32, float{}) ||
         when(kFloat64, double{});
}

// The parser's state: one file, one pass; the first error ends it.
class Parser {
 public:
  explicit Parser(std::span<const std::byte> bytes) : bytes_(bytes), in_(bytes) {}

  Status header(std::uint32_t& version);
  Status metadata(std::map<std::string, GgufValue, std::less<>>& out);
  Status tensors(std::uint64_t alignment, std::vector<FileTensor>& out);

 private:
  Status value(std::string_view key, std::uint32_t type, GgufValue& out);
  Status array(std::string_view key, GgufValue& out);
  Status tensor(FileTensor& out, std::uint64_t& offset);
  template <class T, class To>
  bool elements(std::uint64_t count, std::vector<To>& out);

  static Status truncated(std::string_view where) {
    return corrupt_data(concat("GGUF file ends inside ", where));
  }
  static Status bad_key(std::string_view key, std::string_view problem) {
    return corrupt_data(concat("GGUF metadata '", printable(key), "' ", problem));
  }
  static Status bad_tensor(std::string_view name, std::string_view problem) {
    return corrupt_data(concat("GGUF tensor '", printable(name), "' ", problem));
  }

  std::span<const std::byte> bytes_;
  ByteCursor in_;
  std::uint64_t num_tensors_ = 0, num_entries_ = 0;
  std::uint64_t array_elements_left_ = kMaxArrayElements;
};

Status Parser::header(std::uint32_t& version) {
  char magic[4];
  if (const std::string_view why = no_model_because(bytes_); !why.empty())
    return corrupt_data(std::string(why));
  if (!in_.read(magic) || std::memcmp(magic, "GGUF", 4) != 0) return corrupt_data("not a GGUF file");
  if (!in_.read(version)) return truncated("its header");
  if (version == 1) return unimplemented("GGUF version 1 is not supported; supported: versions 2 and 3");
  if (version != 0 && (version & 0xFFFF) == 0) {
    return unimplemented("big-endian GGUF files are not supported; supported: little-endian");
  }
  if (version != 2 && version != 3) {
    return unimplemented(concat("GGUF version ", version, " is not supported; supported: versions 2 and 3"));
  }
  if (!in_.read(num_tensors_) || !in_.read(num_entries_)) return truncated("its header");
  // An entry takes at least 8 + 4 + 1 bytes, a tensor at least 8 + 4 + 4 + 8.
  if (num_entries_ > kMaxEntries || num_entries_ > in_.remaining() / 13) {
    return corrupt_data(concat("GGUF header announces ", num_entries_,
                               " metadata entries, more than the file can hold: it is truncated or damaged"));
  }
  if (num_tensors_ > kMaxEntries || num_tensors_ > in_.remaining() / 24) {
    return corrupt_data(concat("GGUF header announces ", num_tensors_,
                               " tensors, more than the file can hold: it is truncated or damaged"));
  }
  return ok_status();
}

Status Parser::metadata(std::map<std::string, GgufValue, std::less<>>& out) {
  for (std::uint64_t i = 0; i < num_entries_; ++i) {
    std::string_view key;
    std::uint32_t type = 0;
    if (!in_.read(key)) return truncated(concat("metadata key ", i));
    if (key.empty() || key.size() > kMaxNameBytes) {
      return corrupt_data(concat("GGUF metadata key ", i, " has a name of ", key.size(), " bytes"));
    }
    if (!in_.read(type)) return truncated(concat("metadata '", printable(key), "'"));
    const auto [entry, inserted] = out.try_emplace(std::string(key));
    if (!inserted) return bad_key(key, "appears twice");
    PAGODA_RETURN_IF_ERROR(value(key, type, entry->second));
  }
  return ok_status();
}

Status Parser::value(std::string_view key, std::uint32_t type, GgufValue& out) {
  if (type == kArray) return array(key, out);
  bool read = false;
  if (type == kBool) {
    std::uint8_t byte = 0;
    read = in_.read(byte);
    if (byte > 1) return bad_key(key, "is a boolean that is neither 0 nor 1");
    out = byte == 1;
  } else if (type == kString) {
    std::string_view text;
    read = in_.read(text);
    if (text.size() > kMaxStringBytes) return bad_key(key, concat("has a string of ", text.size(), " bytes"));
    out = std::string(text);
  } else {
    const bool known = with_number(type, [&]<class T>(T number) {
      using Integer = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
      read = in_.read(number);
      out = static_cast<std::conditional_t<std::is_floating_point_v<T>, double, Integer>>(number);
    });
    if (!known) return bad_key(key, concat("has value type ", type, ", which GGUF does not define"));
  }
  return read ? ok_status() : truncated(concat("metadata '", printable(key), "'"));
}

template <class T, class To>
bool Parser::elements(std::uint64_t count, std::vector<To>& out) {
  out.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    T element{};
    if (!in_.read(element)) return false;
    if constexpr (std::is_same_v<T, std::uint64_t>) {  // above INT64_MAX: not used by any key
      if (element > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return false;
    }
    if constexpr (std::is_same_v<To, bool>) {
      if (element > 1) return false;
    }
    out.push_back(static_cast<To>(element));
  }
  return true;
}

Status Parser::array(std::string_view key, GgufValue& out) {
  std::uint32_t type = 0;
  std::uint64_t count = 0;
  if (!in_.read(type) || !in_.read(count)) return truncated(concat("metadata '", printable(key), "'"));
  if (type == kArray) return bad_key(key, "is an array of arrays, which is not supported");
  if (type >= kNumValueTypes)
    return bad_key(key, concat("has element type ", type, ", which GGUF does not define"));
  if (count > in_.remaining() / kValueBytes[type])
    return truncated(concat("the array '", printable(key), "'"));
  if (count > array_elements_left_) {
    return bad_key(
        key, concat("has ", count, " elements; at most ", kMaxArrayElements, " in all arrays are read"));
  }
  array_elements_left_ -= count;

  auto result = std::make_shared<GgufArray>();
  GgufArray& to = *result;
  bool good = false;
  if (type == kString) {
    to.element = GgufElement::string;
    good = elements<std::string_view>(count, to.strings);
  } else if (type == kBool) {
    to.element = GgufElement::boolean;
    good = elements<std::uint8_t>(count, to.booleans);
  } else {
    with_number(type, [&]<class T>(T) {
      to.element = std::is_floating_point_v<T> ? GgufElement::floating : GgufElement::integer;
      if constexpr (std::is_floating_point_v<T>)
        good = elements<T>(count, to.floats);
      else
        good = elements<T>(count, to.integers);
    });
  }
  if (!good) return bad_key(key, "is an array cut short or with an element out of range");
  out = std::move(result);
  return ok_status();
}

// Parses one entry of the tensor table; `offset` is relative to the data section.
Status Parser::tensor(FileTensor& out, std::uint64_t& offset) {
  std::string_view name;
  if (!in_.read(name)) return truncated("the table of tensors");
  if (name.empty() || name.size() > kMaxNameBytes) {
    return corrupt_data(concat("a GGUF tensor has a name of ", name.size(), " bytes"));
  }
  out.name = name;
  std::uint32_t num_dimensions = 0;
  if (!in_.read(num_dimensions)) return truncated("the table of tensors");
  if (num_dimensions > kMaxDimensions) {
    return bad_tensor(
        name, concat("has ", num_dimensions, " dimensions; at most ", kMaxDimensions, " are defined"));
  }
  std::uint64_t extents[kMaxDimensions] = {1, 1, 1, 1};
  std::uint64_t product = 1;
  for (std::uint32_t d = 0; d < num_dimensions; ++d) {
    if (!in_.read(extents[d])) return truncated("the table of tensors");
    if (extents[d] == 0) return bad_tensor(name, "has a dimension of 0");
    // Bounded at 2^56 elements, so that no product with a type's size overflows below.
    if (__builtin_mul_overflow(product, extents[d], &product) || product > (std::uint64_t{1} << 56)) {
      return bad_tensor(name, "has more elements than can be");
    }
  }
  // The file writes the innermost extent first.
  for (std::uint32_t d = num_dimensions; d-- > 0;) out.shape.push_back(static_cast<std::int64_t>(extents[d]));
  if (num_dimensions == 0) out.shape.push_back(1);

  std::uint32_t number = 0;
  if (!in_.read(number) || !in_.read(offset)) return truncated("the table of tensors");
  const GgmlType* type = find_ggml_type(number);
  if (type == nullptr) {
    return bad_tensor(name, concat("has type number ", number,
                                   ", which is not supported; supported: ", supported_ggml_types()));
  }
  const auto block = static_cast<std::uint64_t>(type->block_elements);
  if (extents[0] % block != 0) {
    return bad_tensor(name, concat("has rows of ", extents[0], " elements, not a multiple of ", type->name,
                                   "'s block of ", block));
  }
  out.type = type->name;
  out.dtype = type->dtype;
  out.bytes = static_cast<std::int64_t>(product / block * static_cast<std::uint64_t>(type->block_bytes));
  return ok_status();
}

Status Parser::tensors(std::uint64_t alignment, std::vector<FileTensor>& out) {
  out.resize(num_tensors_);
  std::vector<std::uint64_t> offsets(num_tensors_);
  for (std::uint64_t i = 0; i < num_tensors_; ++i) PAGODA_RETURN_IF_ERROR(tensor(out[i], offsets[i]));

  const std::uint64_t data_start = (in_.position() + alignment - 1) / alignment * alignment;
  const std::uint64_t data_bytes = bytes_.size() > data_start ? bytes_.size() - data_start : 0;
  for (std::uint64_t i = 0; i < num_tensors_; ++i) {
    if (offsets[i] % alignment != 0) {
      return bad_tensor(out[i].name, concat("starts at offset ", offsets[i],
                                            ", not a multiple of the alignment ", alignment));
    }
    const auto bytes = static_cast<std::uint64_t>(out[i].bytes);
    if (offsets[i] > data_bytes || bytes > data_bytes - offsets[i]) {
      return bad_tensor(out[i].name, concat("reaches past the end of the file (", bytes, " bytes at offset ",
                                            offsets[i], " of ", data_bytes, ")"));
    }
    out[i].data = bytes_.data() + data_start + offsets[i];
  }
  std::vector<std::uint64_t> by_offset(num_tensors_);
  std::iota(by_offset.begin(), by_offset.end(), std::uint64_t{0});
  std::sort(by_offset.begin(), by_offset.end(), [&](auto a, auto b) { return offsets[a] < offsets[b]; });
  for (std::uint64_t i = 1; i < num_tensors_; ++i) {
    const FileTensor& before = out[by_offset[i - 1]];
    if (out[by_offset[i]].data - before.data < before.bytes) {
      return bad_tensor(out[by_offset[i]].name, concat("overlaps '", printable(before.name), "'"));
    }
  }
  return ok_status();
}

}  // namespace

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes) {
  GgufFile file;
  Parser parser(bytes);
  PAGODA_RETURN_IF_ERROR(parser.header(file.version_));
  PAGODA_RETURN_IF_ERROR(parser.metadata(file.metadata_));

  std::uint64_t alignment = kDefaultAlignment;
  if (const auto entry = file.metadata_.find("general.alignment"); entry != file.metadata_.end()) {
    const std::optional<std::int64_t> value = file.integer("general.alignment");
    if (!value || *value <= 0 || !std::has_single_bit(static_cast<std::uint64_t>(*value)) ||
        static_cast<std::uint64_t>(*value) > kMaxAlignment) {
      return corrupt_data("GGUF metadata 'general.alignment' is not a power of two");
    }
    alignment = static_cast<std::uint64_t>(*value);
  }

  PAGODA_RETURN_IF_ERROR(parser.tensors(alignment, file.tensor_list_));
  std::map<std::string_view, int> seen;
  for (const FileTensor& tensor : file.tensor_list_) {
    if (!seen.emplace(tensor.name, 0).second) {
      return corrupt_data(concat("GGUF tensor '", printable(tensor.name), "' appears twice"));
    }
    if (tensor.dtype)
      file.tensors_.emplace(tensor.name, TensorView{*tensor.dtype, tensor.shape, tensor.data});
  }
  return file;
}

Status GgufFile::add_part(const GgufFile& part) {
  for (const auto& [name, view] : part.tensors_)
    if (!tensors_.emplace(name, view).second)
      return corrupt_data(concat("tensor '", printable(name), "' is in two parts of the model"));
  tensor_list_.insert(tensor_list_.end(), part.tensor_list_.begin(), part.tensor_list_.end());
  return ok_status();
}

Status GgufFile::check_supported() const {
  for (const FileTensor& tensor : tensor_list_) {
    if (tensor.dtype) continue;
    return unimplemented(concat("tensor '", printable(tensor.name), "' has type ", tensor.type,
                                ", which is not supported; supported: ", supported_ggml_types()));
  }
  return ok_status();
}

}  // namespace pagoda
