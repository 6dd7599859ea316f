#pragma once
// GgufBuilder: writes small GGUF files in memory, well-formed or not, for tests only.
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "loader/test_files.h"

namespace pagoda::testing {

class GgufBuilder {
 public:
  explicit GgufBuilder(std::uint32_t version = 3) : version_(version) {}

  template <class T>
  static void put(std::string& out, T value) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    out.append(bytes, sizeof(T));
  }
  static void put_string(std::string& out, std::string_view text) {
    put<std::uint64_t>(out, text.size());
    out += text;
  }

  // `value` is the encoded value without its type.
  GgufBuilder& raw(std::string_view key, std::uint32_t type, std::string_view value) {
    put_string(metadata_, key);
    put<std::uint32_t>(metadata_, type);
    metadata_ += value;
    ++num_entries_;
    return *this;
  }
  template <class T>
  GgufBuilder& scalar(std::string_view key, std::uint32_t type, T value) {
    std::string bytes;
    put(bytes, value);
    return raw(key, type, bytes);
  }
  GgufBuilder& u32(std::string_view key, std::uint32_t value) { return scalar(key, 4, value); }
  GgufBuilder& f32(std::string_view key, float value) { return scalar(key, 6, value); }
  GgufBuilder& string(std::string_view key, std::string_view value) {
    std::string bytes;
    put_string(bytes, value);
    return raw(key, 8, bytes);
  }
  GgufBuilder& strings(std::string_view key, const std::vector<std::string>& values) {
    std::string bytes;
    put<std::uint32_t>(bytes, 8);
    put<std::uint64_t>(bytes, values.size());
    for (const std::string& value : values) put_string(bytes, value);
    return raw(key, 9, bytes);
  }
  template <class T>
  GgufBuilder& array(std::string_view key, std::uint32_t element_type, const std::vector<T>& values) {
    std::string bytes;
    put<std::uint32_t>(bytes, element_type);
    put<std::uint64_t>(bytes, values.size());
    for (const T& value : values) put(bytes, value);
    return raw(key, 9, bytes);
  }

  // `extents` innermost first, as the file writes them; `data` is placed at the next aligned offset.
  GgufBuilder& tensor(std::string_view name, const std::vector<std::uint64_t>& extents, std::uint32_t type,
                      std::string_view data) {
    data_.resize((data_.size() + alignment - 1) / alignment * alignment);
    return tensor_at(name, extents, type, data_.size(), data);
  }
  GgufBuilder& tensor_at(std::string_view name, const std::vector<std::uint64_t>& extents, std::uint32_t type,
                         std::uint64_t offset, std::string_view data) {
    put_string(table_, name);
    put<std::uint32_t>(table_, static_cast<std::uint32_t>(extents.size()));
    for (const std::uint64_t extent : extents) put(table_, extent);
    put(table_, type);
    put(table_, offset);
    data_ += data;
    ++num_tensors_;
    return *this;
  }

  std::string build() const {
    std::string out = "GGUF";
    put(out, version_);
    put(out, num_tensors_);
    put(out, num_entries_);
    out += metadata_;
    out += table_;
    if (num_tensors_ > 0) out.resize((out.size() + alignment - 1) / alignment * alignment);
    return out + data_;
  }

  std::size_t alignment = 32;  // set before tensor(); does not write general.alignment

 private:
  std::uint32_t version_;
  std::uint64_t num_tensors_ = 0, num_entries_ = 0;
  std::string metadata_, table_, data_;
};

}  // namespace pagoda::testing
