#include "loader/safetensors.h"

#include <algorithm>
#include <array>
#include <boost/json/basic_parser_impl.hpp>
#include <cstring>
#include <set>

#include "base/strings.h"
#include "loader/no_model_bytes.h"
#include "loader/printable.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit
constexpr std::size_t kMaxShape = 8;

struct Type {
  std::string_view name;
  std::int64_t bits;
  std::optional<DType> dtype;
};
constexpr std::array<Type, 22> kSafetensorsTypes = {{
    {"F32", 32, DType::f32}, {"F16", 16, DType::f16}, {"BF16", 16, DType::bf16}, {"BOOL", 8, {}},
    {"U8", 8, {}},           {"I8", 8, {}},           {"U16", 16, {}},           {"I16", 16, {}},
    {"U32", 32, {}},         {"I32", 32, {}},         {"U64", 64, {}},           {"I64", 64, {}},
    {"F64", 64, {}},         {"C64", 64, {}},         {"F8_E4M3", 8, {}},        {"F8_E5M2", 8, {}},
    {"F8_E8M0", 8, {}},      {"F8_E4M3FNUZ", 8, {}},  {"F8_E5M2FNUZ", 8, {}},    {"F6_E2M3", 6, {}},
    {"F6_E3M2", 6, {}},      {"F4", 4, {}},
}};

struct Entry {
  FileTensor tensor;
  std::int64_t bits = 0;
  std::uint64_t begin = 0, end = 0;
  bool has_dtype = false, has_shape = false, has_offsets = false;
};

// Receives the header's JSON event by event, and accepts exactly
//   { "__metadata__": {string: string}, NAME: {"dtype": .., "shape": [..], "data_offsets": [b, e]}, .. }
// The first deviation is kept in `problem` and stops the parser. The member names are required by Boost.JSON.
class HeaderHandler {
 public:
  using error_code = json::error_code;
  using string_view = json::string_view;
  static constexpr std::size_t max_object_size = std::size_t{1} << 24;
  static constexpr std::size_t max_array_size = kMaxShape;
  static constexpr std::size_t max_key_size = 65535;
  static constexpr std::size_t max_string_size = std::size_t{1} << 24;

  std::vector<Entry> entries;
  std::map<std::string, std::string> metadata;
  std::string problem;

  bool on_document_begin(error_code&) { return true; }
  bool on_document_end(error_code&) { return true; }

  bool on_object_begin(error_code& ec) {
    ++depth_;
    if (depth_ == 1) return true;
    if (depth_ == 2) {
      in_metadata_ = key_ == "__metadata__";
      if (in_metadata_) return metadata.empty() || fail("'__metadata__' appears twice", ec);
      if (!names_.insert(key_).second)
        return fail(concat("tensor '", printable(key_), "' appears twice"), ec);
      entries.emplace_back().tensor.name = key_;
      return true;
    }
    return fail("an object is nested too deep", ec);
  }
  bool on_object_end(std::size_t, error_code& ec) {
    if (depth_-- != 2 || in_metadata_) return true;
    const Entry& entry = entries.back();
    if (entry.has_dtype && entry.has_shape && entry.has_offsets) return true;
    return fail_tensor("lacks dtype, shape or data_offsets", ec);
  }

  bool on_array_begin(error_code& ec) {
    numbers_.clear();
    if (depth_ == 2 && !in_metadata_ && !in_array_ && (key_ == "shape" || key_ == "data_offsets")) {
      in_array_ = true;
      return true;
    }
    return fail("an array where none belongs", ec);
  }
  bool on_array_end(std::size_t, error_code& ec) {
    in_array_ = false;
    Entry& entry = entries.back();
    if (key_ == "shape") {
      if (entry.has_shape) return fail_tensor("has two shapes", ec);
      entry.has_shape = true;
      for (const std::uint64_t extent : numbers_) {
        if (extent > (std::uint64_t{1} << 56)) return fail_tensor("has more elements than can be", ec);
        entry.tensor.shape.push_back(static_cast<std::int64_t>(extent));
      }
      return true;
    }
    if (entry.has_offsets) return fail_tensor("has two data_offsets", ec);
    if (numbers_.size() != 2) return fail_tensor("needs two data_offsets", ec);
    entry.has_offsets = true;
    entry.begin = numbers_[0];
    entry.end = numbers_[1];
    return true;
  }

  bool on_key_part(string_view part, std::size_t, error_code&) {
    text_.append(part.data(), part.size());
    return true;
  }
  bool on_key(string_view part, std::size_t, error_code& ec) {
    text_.append(part.data(), part.size());
    key_ = std::move(text_);
    text_.clear();
    if (depth_ == 2 && !in_metadata_ && key_ != "dtype" && key_ != "shape" && key_ != "data_offsets") {
      return fail_tensor(concat("has a field '", printable(key_), "' that the format does not define"), ec);
    }
    return true;
  }

  bool on_string_part(string_view part, std::size_t, error_code&) {
    text_.append(part.data(), part.size());
    return true;
  }
  bool on_string(string_view part, std::size_t, error_code& ec) {
    text_.append(part.data(), part.size());
    const std::string text = std::move(text_);
    text_.clear();
    if (depth_ != 2 || in_array_) return fail("a string where none belongs", ec);
    if (in_metadata_) {
      if (metadata.emplace(key_, text).second) return true;
      return fail(concat("metadata '", printable(key_), "' appears twice"), ec);
    }
    if (key_ != "dtype") return fail_tensor(concat("has a string as ", key_), ec);
    Entry& entry = entries.back();
    const auto type = std::find_if(kSafetensorsTypes.begin(), kSafetensorsTypes.end(),
                                   [&](const Type& each) { return each.name == text; });
    if (type == kSafetensorsTypes.end())
      return fail_tensor(concat("has an unknown dtype '", printable(text), "'"), ec);
    if (entry.has_dtype) return fail_tensor("has two dtypes", ec);
    entry.has_dtype = true;
    entry.tensor.type = type->name;
    entry.tensor.dtype = type->dtype;
    entry.bits = type->bits;
    return true;
  }

  bool on_number_part(string_view, error_code&) { return true; }
  bool on_int64(std::int64_t value, string_view, error_code& ec) {
    if (!in_array_ || value < 0) return fail("a number where none belongs", ec);
    numbers_.push_back(static_cast<std::uint64_t>(value));
    return true;
  }
  bool on_uint64(std::uint64_t value, string_view, error_code& ec) {
    if (!in_array_) return fail("a number where none belongs", ec);
    numbers_.push_back(value);
    return true;
  }
  bool on_double(double, string_view, error_code& ec) { return fail("a number that is not an integer", ec); }
  bool on_bool(bool, error_code& ec) { return fail("true or false where none belongs", ec); }
  bool on_null(error_code& ec) { return fail("null where none belongs", ec); }
  bool on_comment_part(string_view, error_code&) { return true; }
  bool on_comment(string_view, error_code&) { return true; }

 private:
  bool fail(std::string what, error_code& ec) {
    if (problem.empty()) problem = std::move(what);
    ec = json::error::syntax;  // any error will do; `problem` is reported
    return false;
  }
  bool fail_tensor(std::string_view what, error_code& ec) {
    return fail(concat("tensor '", entries.empty() ? "" : printable(entries.back().tensor.name), "' ", what),
                ec);
  }

  int depth_ = 0;
  bool in_metadata_ = false, in_array_ = false;
  std::string key_, text_;
  std::vector<std::uint64_t> numbers_;
  std::set<std::string> names_;
};

Status bad(std::string_view what) { return corrupt_data(concat("safetensors header: ", what)); }

Status read_header(std::string_view text, HeaderHandler& handler) {
  json::parse_options options;
  options.max_depth = 4;
  json::basic_parser<HeaderHandler> parser(options);
  json::error_code error;
  const std::size_t used = parser.write_some(false, text.data(), text.size(), error);
  handler = std::move(parser.handler());
  if (!handler.problem.empty()) return bad(handler.problem);
  if (error) return bad(concat("not well-formed JSON: ", error.message()));
  if (used != text.size()) return bad("text after the JSON object");
  return ok_status();
}

// Returns an entry's size from dtype and shape; nullopt on overflow or a fractional number of bytes.
std::optional<std::uint64_t> expected_bytes(const Entry& entry) {
  std::uint64_t elements = 1;
  bool empty = false;
  for (const std::int64_t extent : entry.tensor.shape) {
    // A zero extent is checked last, so that TensorView::elements() cannot overflow before it.
    if (extent == 0) empty = true;
    if (extent != 0 && __builtin_mul_overflow(elements, static_cast<std::uint64_t>(extent), &elements)) {
      return std::nullopt;
    }
    if (elements > (std::uint64_t{1} << 56)) return std::nullopt;
  }
  if (empty) return 0;
  const std::uint64_t bits = elements * static_cast<std::uint64_t>(entry.bits);
  if (bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::parse(std::span<const std::byte> bytes) {
  std::uint64_t header_bytes = 0;
  if (const std::string_view why = no_model_because(bytes); !why.empty())
    return corrupt_data(std::string(why));
  if (bytes.size() < sizeof header_bytes)
    return corrupt_data("the file is too short for safetensors: it is truncated");
  std::memcpy(&header_bytes, bytes.data(), sizeof header_bytes);
  bytes = bytes.subspan(sizeof header_bytes);
  if (header_bytes > bytes.size() || header_bytes > kMaxHeaderBytes) {
    return corrupt_data(concat("not a safetensors file: a header of ", header_bytes, " bytes in a file of ",
                               bytes.size() + sizeof header_bytes));
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              static_cast<std::size_t>(header_bytes));
  if (!text.starts_with('{')) return corrupt_data("not a safetensors file: its header is not a JSON object");
  HeaderHandler header;
  PAGODA_RETURN_IF_ERROR(read_header(text, header));
  const std::span<const std::byte> data = bytes.subspan(static_cast<std::size_t>(header_bytes));

  std::sort(header.entries.begin(), header.entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  SafetensorsFile file;
  std::uint64_t position = 0;
  for (Entry& entry : header.entries) {
    FileTensor& tensor = entry.tensor;
    const std::string name = printable(tensor.name);
    const std::optional<std::uint64_t> expected = expected_bytes(entry);
    if (!expected) return bad(concat("tensor '", name, "' has a shape that cannot be"));
    if (entry.begin != position || entry.end < entry.begin) {
      return bad(concat("tensor '", name, "' leaves a gap or overlaps another (data_offsets ", entry.begin,
                        ", ", entry.end, ")"));
    }
    if (entry.end > data.size()) return bad(concat("tensor '", name, "' reaches past the end of the file"));
    if (entry.end - entry.begin != *expected) {
      return bad(concat("tensor '", name, "' has ", entry.end - entry.begin, " bytes where its shape needs ",
                        *expected));
    }
    position = entry.end;
    tensor.data = data.data() + entry.begin;
    tensor.bytes = static_cast<std::int64_t>(*expected);
    if (tensor.dtype)
      file.tensors_.emplace(tensor.name, TensorView{*tensor.dtype, tensor.shape, tensor.data});
    file.tensor_list_.push_back(std::move(tensor));
  }
  if (position != data.size()) {
    return bad(concat("the file has ", data.size() - position, " bytes after its last tensor"));
  }
  file.metadata_ = std::move(header.metadata);
  return file;
}

Status check_supported(const FileTensor& tensor) {
  if (tensor.dtype || tensor.type == "U8" || tensor.type == "BOOL" || tensor.type == "I64")
    return ok_status();
  return unimplemented(concat("tensor '", printable(tensor.name), "' has dtype ", tensor.type,
                              ", which is not supported; supported: F32, F16, BF16"));
}

Status SafetensorsFile::check_supported() const {
  for (const FileTensor& tensor : tensor_list_) PAGODA_RETURN_IF_ERROR(pagoda::check_supported(tensor));
  return ok_status();
}

}  // namespace pagoda
