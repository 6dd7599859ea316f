#include "loader/gguf_writer.h"

#include <array>
#include <cstring>

#include "base/assign_or_return.h"
#include "base/check.h"

namespace pagoda {
namespace {

constexpr std::uint32_t kTypeUint32 = 4, kTypeInt32 = 5, kTypeFloat32 = 6, kTypeBool = 7, kTypeString = 8,
                        kTypeArray = 9;
// Bytes of a value by its type; 0: variable size.
constexpr std::array<std::uint64_t, 13> kFixedBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

template <class T>
void put_number(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}
void put_string(std::string& out, std::string_view text) {
  put_number(out, std::uint64_t{text.size()});
  out += text;
}

// Walks over metadata that GgufFile has already checked.
class Walker {
 public:
  explicit Walker(std::string_view bytes) : bytes_(bytes) {}
  template <class T>
  T number() {
    T value{};
    CHECK(bytes_.size() - at_ >= sizeof value);
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::string_view take(std::uint64_t bytes) {
    CHECK(bytes <= bytes_.size() - at_);
    at_ += bytes;
    return bytes_.substr(at_ - bytes, bytes);
  }
  void skip_value(std::uint32_t type) {
    if (type == kTypeString) {
      take(number<std::uint64_t>());
    } else if (type == kTypeArray) {
      const auto element = number<std::uint32_t>();
      const auto count = number<std::uint64_t>();
      CHECK(element < kFixedBytes.size() && element != kTypeArray);
      if (element != kTypeString) {
        take(count * kFixedBytes[element]);
        return;
      }
      for (std::uint64_t i = 0; i < count; ++i) take(number<std::uint64_t>());
    } else {
      CHECK(type < kFixedBytes.size());
      take(kFixedBytes[type]);
    }
  }
  std::size_t at() const { return at_; }

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
};

template <class T>
GgufEntry entry_of(std::string key, std::uint32_t type, T value) {
  GgufEntry entry{.key = std::move(key), .encoded = {}};
  put_number(entry.encoded, type);
  put_number(entry.encoded, value);
  return entry;
}
GgufEntry array_entry(std::string key, std::uint32_t type, std::size_t count) {
  GgufEntry entry = entry_of(std::move(key), kTypeArray, type);
  put_number(entry.encoded, std::uint64_t{count});
  return entry;
}

std::string padding(std::uint64_t position, std::int64_t alignment) {
  const auto unit = static_cast<std::uint64_t>(alignment);
  return std::string((unit - position % unit) % unit, '\0');
}

}  // namespace

std::vector<GgufEntry> metadata_entries(const GgufFile& file) {
  CHECK(file.file() != nullptr);
  const auto all = file.file()->bytes();
  const std::string_view bytes(reinterpret_cast<const char*>(all.data()), all.size());
  Walker in(bytes);
  in.take(16);  // magic, version, tensors
  const auto count = in.number<std::uint64_t>();
  std::vector<GgufEntry> entries;
  for (std::uint64_t i = 0; i < count; ++i) {
    GgufEntry& entry = entries.emplace_back();
    entry.key = in.take(in.number<std::uint64_t>());
    const std::size_t begin = in.at();
    in.skip_value(in.number<std::uint32_t>());
    entry.encoded = bytes.substr(begin, in.at() - begin);
  }
  return entries;
}

GgufEntry integer_entry(std::string key, std::uint32_t value) {
  return entry_of(std::move(key), kTypeUint32, value);
}
GgufEntry number_entry(std::string key, float value) { return entry_of(std::move(key), kTypeFloat32, value); }
GgufEntry flag_entry(std::string key, bool value) {
  return entry_of(std::move(key), kTypeBool, static_cast<std::uint8_t>(value));
}

GgufEntry text_entry(std::string key, std::string_view value) {
  GgufEntry entry{.key = std::move(key), .encoded = {}};
  put_number(entry.encoded, kTypeString);
  put_string(entry.encoded, value);
  return entry;
}

GgufEntry integers_entry(std::string key, std::span<const std::int32_t> values) {
  GgufEntry entry = array_entry(std::move(key), kTypeInt32, values.size());
  for (const std::int32_t value : values) put_number(entry.encoded, value);
  return entry;
}
GgufEntry numbers_entry(std::string key, std::span<const float> values) {
  GgufEntry entry = array_entry(std::move(key), kTypeFloat32, values.size());
  for (const float value : values) put_number(entry.encoded, value);
  return entry;
}
GgufEntry flags_entry(std::string key, const std::vector<bool>& values) {
  GgufEntry entry = array_entry(std::move(key), kTypeBool, values.size());
  for (const bool value : values) put_number(entry.encoded, static_cast<std::uint8_t>(value));
  return entry;
}
GgufEntry texts_entry(std::string key, std::span<const std::string_view> values) {
  GgufEntry entry = array_entry(std::move(key), kTypeString, values.size());
  for (const std::string_view value : values) put_string(entry.encoded, value);
  return entry;
}

std::int64_t GgufTensorEntry::bytes() const {
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) elements *= extent;
  return dtype_bytes(dtype, elements);
}

std::string gguf_head(std::span<const GgufEntry> entries, std::span<const GgufTensorEntry> tensors,
                      std::int64_t alignment) {
  std::string head = "GGUF";
  put_number(head, std::uint32_t{3});
  put_number(head, std::uint64_t{tensors.size()});
  put_number(head, std::uint64_t{entries.size()});
  for (const GgufEntry& entry : entries) {
    put_string(head, entry.key);
    head += entry.encoded;
  }
  std::uint64_t offset = 0;
  for (const GgufTensorEntry& tensor : tensors) {
    put_string(head, tensor.name);
    put_number(head, static_cast<std::uint32_t>(tensor.shape.size()));
    for (auto extent = tensor.shape.rbegin(); extent != tensor.shape.rend(); ++extent)
      put_number(head, static_cast<std::uint64_t>(*extent));
    put_number(head, static_cast<std::uint32_t>(dtype_info(tensor.dtype).gguf));
    put_number(head, offset);
    offset += static_cast<std::uint64_t>(tensor.bytes());
    offset += padding(offset, alignment).size();
  }
  head += padding(head.size(), alignment);
  return head;
}

Result<std::unique_ptr<GgufWriter>> GgufWriter::create(const std::string& path,
                                                       std::span<const GgufEntry> entries,
                                                       std::vector<GgufTensorEntry> tensors,
                                                       std::int64_t alignment) {
  PAGODA_ASSIGN_OR_RETURN(auto file, NewFile::create(path));
  PAGODA_RETURN_IF_ERROR(file->write(gguf_head(entries, tensors, alignment)));
  return std::unique_ptr<GgufWriter>(new GgufWriter(std::move(file), std::move(tensors), alignment));
}

Status GgufWriter::write(std::span<const std::byte> piece) {
  CHECK(tensor_ < tensors_.size());
  const std::int64_t bytes = tensors_[tensor_].bytes();
  written_ += static_cast<std::int64_t>(piece.size());
  CHECK(written_ <= bytes);
  PAGODA_RETURN_IF_ERROR(file_->write({reinterpret_cast<const char*>(piece.data()), piece.size()}));
  if (written_ < bytes) return ok_status();
  ++tensor_;
  written_ = 0;
  return file_->write(padding(static_cast<std::uint64_t>(bytes), alignment_));
}

Status GgufWriter::finish() {
  CHECK(tensor_ == tensors_.size());
  return file_->finish();
}

}  // namespace pagoda
