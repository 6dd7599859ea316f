#include "loader/gguf_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/check.h"
#include "base/strings.h"
#include "loader/printable.h"

namespace pagoda {
namespace {

constexpr std::uint32_t kUint32 = 4, kString = 8, kArray = 9;
// Bytes of a value by its type; 0: of no fixed size.
constexpr std::array<std::uint64_t, 13> kValueBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

template <class T>
void put_number(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}
void put_string(std::string& out, std::string_view text) {
  put_number(out, std::uint64_t{text.size()});
  out += text;
}

// Walks over what GgufFile has checked already.
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
    if (type == kString) {
      take(number<std::uint64_t>());
    } else if (type == kArray) {
      const auto element = number<std::uint32_t>();
      const auto count = number<std::uint64_t>();
      CHECK(element < kValueBytes.size() && element != kArray);
      if (element != kString) {
        take(count * kValueBytes[element]);
        return;
      }
      for (std::uint64_t i = 0; i < count; ++i) take(number<std::uint64_t>());
    } else {
      CHECK(type < kValueBytes.size());
      take(kValueBytes[type]);
    }
  }
  std::size_t at() const { return at_; }

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
};

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
  GgufEntry entry{.key = std::move(key), .encoded = {}};
  put_number(entry.encoded, kUint32);
  put_number(entry.encoded, value);
  return entry;
}

std::int64_t GgufTensorEntry::bytes() const {
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) elements *= extent;
  return dtype_bytes(dtype, elements);
}

Result<std::unique_ptr<GgufWriter>> GgufWriter::create(const std::string& path,
                                                       std::span<const GgufEntry> entries,
                                                       std::vector<GgufTensorEntry> tensors,
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
  std::unique_ptr<GgufWriter> writer(new GgufWriter(path, std::move(tensors), alignment));
  PAGODA_RETURN_IF_ERROR(writer->open());
  PAGODA_RETURN_IF_ERROR(writer->put(head));
  return writer;
}

Status GgufWriter::failed(std::string_view what) const {
  return invalid_argument(concat("cannot ", what, " '", printable(path_), "': ", std::strerror(errno)));
}

Status GgufWriter::open() {
  struct stat present = {};
  if (::lstat(path_.c_str(), &present) == 0) {
    errno = EEXIST;
    return failed("write");
  }
  std::string folder = std::filesystem::path(path_).parent_path().string();
  if (folder.empty()) folder = ".";
  file_ = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (file_ >= 0) return ok_status();
  file_ = ::open(path_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
  named_ = file_ >= 0;
  return named_ ? ok_status() : failed("write");
}

GgufWriter::~GgufWriter() {
  if (file_ >= 0) ::close(file_);
  if (named_ && !finished_) ::unlink(path_.c_str());
}

Status GgufWriter::put(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failed("write");
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return ok_status();
}

Status GgufWriter::write(std::span<const std::byte> piece) {
  CHECK(tensor_ < tensors_.size());
  const std::int64_t bytes = tensors_[tensor_].bytes();
  written_ += static_cast<std::int64_t>(piece.size());
  CHECK(written_ <= bytes);
  PAGODA_RETURN_IF_ERROR(put({reinterpret_cast<const char*>(piece.data()), piece.size()}));
  if (written_ < bytes) return ok_status();
  ++tensor_;
  written_ = 0;
  return put(padding(static_cast<std::uint64_t>(bytes), alignment_));
}

Status GgufWriter::finish() {
  CHECK(tensor_ == tensors_.size());
  if (!named_) {
    const std::string self = concat("/proc/self/fd/", file_);
    if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, path_.c_str(), AT_SYMLINK_FOLLOW) != 0)
      return failed("write");
  }
  finished_ = true;
  const int file = std::exchange(file_, -1);
  return ::close(file) == 0 ? ok_status() : failed("write");
}

}  // namespace pagoda
