#include "loader/packed_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/assign_or_return.h"
#include "base/byte_cursor.h"
#include "base/strings.h"
#include "base/xxh64.h"
#include "loader/mapped_file.h"
#include "loader/printable.h"

namespace pagoda {
namespace {

constexpr std::uint64_t kMagic = 0x314B434150474450u;  // "PDGPACK1"
constexpr std::uint64_t kAlignment = 4096;
// Written at once, at multiples of its size: the page cache then holds the file in huge pages (2 MiB) if the
// file system supports them (Linux 6.16 for ext4), and weights are read as fast as from anonymous memory.
// Written in pieces as they come, most of the file is in 4 KiB pages, which costs a third of the reading
// speed (measured on Zen 4). At most two blocks wait for the disk: a cancelled writer ends when they are
// written.
constexpr std::size_t kBlock = std::size_t{8} << 20;
constexpr std::size_t kChunk = std::size_t{1} << 20;  // checked by one thread
constexpr std::int64_t kChunksAtOnce = 128;           // between progress reports
constexpr std::uint64_t kMaxIndexBytes = std::uint64_t{256} << 20;

struct Header {
  std::uint64_t magic = kMagic;
  std::uint64_t file_bytes = 0, index_offset = 0, index_bytes = 0, index_checksum = 0;
  std::uint64_t reserved[2] = {};
  std::uint64_t checksum = 0;  // covers all fields before it
};
static_assert(sizeof(Header) == 64);

std::span<const std::byte> bytes_of(const Header& header) { return std::as_bytes(std::span(&header, 1)); }

std::uint64_t header_checksum(const Header& header) {
  return xxh64(bytes_of(header).first(offsetof(Header, checksum)));
}

// Returns a checksum of every kChunk bytes of each piece, in order.
std::vector<std::uint64_t> chunk_checksums(std::span<const std::span<const std::byte>> pieces,
                                           ThreadPool* pool, const PackedFile::Progress& progress) {
  std::vector<std::span<const std::byte>> chunks;
  for (const std::span<const std::byte> piece : pieces) {
    for (std::size_t at = 0; at < piece.size(); at += kChunk)
      chunks.push_back(piece.subspan(at, std::min(kChunk, piece.size() - at)));
  }
  std::vector<std::uint64_t> sums(chunks.size());
  const auto check = [&](std::int64_t chunk) {
    const auto at = static_cast<std::size_t>(chunk);
#ifdef MADV_POPULATE_READ
    // Maps many pages at once instead of faulting a few at a time; a no-op for memory that is not a mapping.
    const auto address = reinterpret_cast<std::uintptr_t>(chunks[at].data()) / kAlignment * kAlignment;
    ::madvise(reinterpret_cast<void*>(address),  // NOLINT(performance-no-int-to-ptr)
              chunks[at].size(), MADV_POPULATE_READ);
#endif
    sums[at] = xxh64(chunks[at]);
  };
  const auto count = static_cast<std::int64_t>(chunks.size());
  for (std::int64_t first = 0; first < count; first += kChunksAtOnce) {
    const std::int64_t at_once = std::min(kChunksAtOnce, count - first);
    if (pool != nullptr) {
      pool->parallel_for(at_once, [&](std::int64_t chunk, int) { check(first + chunk); });
    } else {
      for (std::int64_t chunk = 0; chunk < at_once; ++chunk) check(first + chunk);
    }
    if (progress) progress(first + at_once, count);
  }
  return sums;
}

// Returns a piece's checksum, computed from its chunks' checksums.
std::uint64_t piece_checksum(std::span<const std::uint64_t> chunks) { return xxh64(std::as_bytes(chunks)); }

void put(std::string& out, std::uint64_t value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}
void put(std::string& out, std::string_view text) {
  put(out, std::uint64_t{text.size()});
  out.append(text);
}

Status damaged(std::string_view what) { return corrupt_data(concat("a packed file ", what)); }

Status system_error(const std::string& path, std::string_view what) {
  const int error = errno;
  std::string message = concat("cannot ", what, " '", printable(path), "': ", std::strerror(error));
  return error == ENOSPC || error == EDQUOT ? resource_exhausted(std::move(message))
                                            : internal_error(std::move(message));
}

// Checks that only this user can write the file.
Status check_owner(const std::string& path) {
  struct stat info;
  if (::lstat(path.c_str(), &info) != 0)
    return errno == ENOENT || errno == ENOTDIR
               ? not_found(concat("no file '", printable(path), "'"))
               : invalid_argument(concat("cannot read '", printable(path), "'"));
  if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid() || (info.st_mode & 022) != 0)
    return invalid_argument(
        concat("'", printable(path), "' is not a file of this user that only this user may write"));
  return ok_status();
}

}  // namespace

struct PackedFile::Parsed {
  PackedFileHead head;
  std::map<std::string, PackedPiece, std::less<>> pieces;
  std::vector<std::span<const std::byte>> order;
  std::vector<std::uint64_t> checksums;  // in the order of `order`
};

Result<PackedFile::Parsed> PackedFile::parse_index(std::span<const std::byte> bytes) {
  Header header;
  if (bytes.size() < sizeof header) return damaged("is too short");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != kMagic || header.checksum != header_checksum(header)) return damaged("has no header");
  if (header.file_bytes != bytes.size()) return damaged("was cut short or added to");
  if (header.index_offset < kAlignment || header.index_offset > bytes.size() ||
      header.index_bytes != bytes.size() - header.index_offset || header.index_bytes > kMaxIndexBytes)
    return damaged("has its index outside of it");
  const auto index = bytes.subspan(static_cast<std::size_t>(header.index_offset));
  if (xxh64(index) != header.index_checksum) return damaged("has a damaged index");

  Parsed parsed;
  ByteCursor in(index);
  std::uint64_t end = kAlignment;
  if (!in.read(parsed.head.key) || !in.read(parsed.head.source))
    return damaged("has an index that ends early");
  while (in.remaining() > 0) {
    std::string name;
    PackedPiece piece;
    std::uint64_t offset = 0, size = 0, checksum = 0;
    if (!in.read(name) || !in.read(piece.description) || !in.read(offset) || !in.read(size) ||
        !in.read(checksum))
      return damaged("has an index that ends early");
    if (offset < end || offset % kAlignment != 0 || offset > header.index_offset ||
        size > header.index_offset - offset)
      return damaged("has pieces that lie outside of it, or on each other");
    end = offset + size;
    piece.bytes = bytes.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(size));
    parsed.order.push_back(piece.bytes);
    parsed.checksums.push_back(checksum);
    if (!parsed.pieces.emplace(std::move(name), std::move(piece)).second)
      return damaged("has two pieces of one name");
  }
  return parsed;
}

Result<std::shared_ptr<const PackedFile>> PackedFile::parse(std::span<const std::byte> bytes,
                                                            std::string_view key, ThreadPool* pool,
                                                            const Progress& progress) {
  PAGODA_ASSIGN_OR_RETURN(Parsed parsed, parse_index(bytes));
  if (parsed.head.key != key) return damaged("was made from something else");
  const std::vector<std::uint64_t> sums = chunk_checksums(parsed.order, pool, progress);
  std::size_t first = 0;
  for (std::size_t i = 0; i < parsed.order.size(); ++i) {
    const std::size_t chunks = (parsed.order[i].size() + kChunk - 1) / kChunk;
    if (piece_checksum(std::span(sums).subspan(first, chunks)) != parsed.checksums[i])
      return damaged("has damaged bytes");
    first += chunks;
  }
  auto file = std::make_shared<PackedFile>();
  file->pieces_ = std::move(parsed.pieces);
  return std::shared_ptr<const PackedFile>(std::move(file));
}

Result<std::shared_ptr<const PackedFile>> PackedFile::open(const std::string& path, std::string_view key,
                                                           ThreadPool* pool, const Progress& progress) {
  PAGODA_RETURN_IF_ERROR(check_owner(path));
  PAGODA_ASSIGN_OR_RETURN(std::shared_ptr<MappedFile> mapped, MappedFile::open(path));
  // Reads from the disk in huge pages, too.
  const auto all = mapped->bytes();
  if (!all.empty()) ::madvise(const_cast<std::byte*>(all.data()), all.size(), MADV_HUGEPAGE);
  auto parsed = parse(all, key, pool, progress);
  if (!parsed) return parsed.error().annotate(printable(path));
  auto file = std::make_shared<PackedFile>(**parsed);
  file->file_ = std::move(mapped);
  return std::shared_ptr<const PackedFile>(std::move(file));
}

Result<PackedFileHead> PackedFile::read_head(const std::string& path) {
  PAGODA_RETURN_IF_ERROR(check_owner(path));
  PAGODA_ASSIGN_OR_RETURN(std::shared_ptr<MappedFile> mapped, MappedFile::open(path));
  PAGODA_ASSIGN_OR_RETURN(Parsed parsed, parse_index(mapped->bytes()));
  return std::move(parsed.head);
}

const PackedPiece* PackedFile::find(std::string_view name) const {
  const auto found = pieces_.find(name);
  return found == pieces_.end() ? nullptr : &found->second;
}

void PackedFile::give_back(const PackedPiece& piece) const {
  if (file_ != nullptr) file_->give_back(piece.bytes);
}

Result<PackedFileWriter> PackedFileWriter::create(const std::string& path, PackedFileHead head) {
  PackedFileWriter writer;
  writer.file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (writer.file_ < 0) return system_error(path, "make");
  writer.path_ = path;
  PAGODA_RETURN_IF_ERROR(writer.append(std::vector<std::byte>(kAlignment)));  // reserves space for the header
  put(writer.index_, head.key);
  put(writer.index_, head.source);
  return writer;
}

PackedFileWriter::PackedFileWriter(PackedFileWriter&& other) noexcept
    : block_(std::move(other.block_)),
      path_(std::move(other.path_)),
      file_(std::exchange(other.file_, -1)),
      finished_(other.finished_),
      end_(other.end_),
      index_(std::move(other.index_)) {}

PackedFileWriter::~PackedFileWriter() {
  if (file_ < 0) return;
  ::close(file_);
  if (!finished_) ::unlink(path_.c_str());
}

Status PackedFileWriter::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t want = std::min(bytes.size(), std::size_t{64} << 20);
    const ssize_t wrote = ::pwrite(file_, bytes.data(), want, static_cast<off_t>(offset));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return system_error(path_, "write");
#ifdef SYNC_FILE_RANGE_WRITE
    // Starts writing now what finish() would have to wait for.
    ::sync_file_range(file_, static_cast<off_t>(offset), wrote, SYNC_FILE_RANGE_WRITE);
#endif
    offset += static_cast<std::uint64_t>(wrote);
    bytes = bytes.subspan(static_cast<std::size_t>(wrote));
  }
  return ok_status();
}

Status PackedFileWriter::append(std::span<const std::byte> bytes) {
  block_.reserve(kBlock);
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), kBlock - block_.size()));
    block_.insert(block_.end(), part.begin(), part.end());
    end_ += part.size();
    bytes = bytes.subspan(part.size());
    if (block_.size() == kBlock) PAGODA_RETURN_IF_ERROR(flush());
  }
  return ok_status();
}

Status PackedFileWriter::align() {
  return append(std::vector<std::byte>((kAlignment - end_ % kAlignment) % kAlignment));
}

Status PackedFileWriter::flush() {
  const std::uint64_t begin = end_ - block_.size();
  PAGODA_RETURN_IF_ERROR(write(begin, block_));
  block_.clear();
#ifdef SYNC_FILE_RANGE_WRITE
  if (begin >= kBlock)
    ::sync_file_range(file_, static_cast<off_t>(begin - kBlock), kBlock,
                      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
#endif
  return ok_status();
}

Status PackedFileWriter::add(const std::string& name, const std::string& description,
                             std::span<const std::byte> bytes,
                             const std::function<bool(std::int64_t)>& go_on) {
  PAGODA_RETURN_IF_ERROR(align());
  const std::uint64_t offset = end_;
  std::vector<std::uint64_t> checksums;
  for (std::size_t at = 0; at < bytes.size(); at += kChunk) {
    const auto chunk = bytes.subspan(at, std::min(kChunk, bytes.size() - at));
    if (go_on && !go_on(static_cast<std::int64_t>(chunk.size())))
      return {StatusCode::cancelled, "cancelled by shutdown"};
    checksums.push_back(xxh64(chunk));
    PAGODA_RETURN_IF_ERROR(append(chunk));
  }
  put(index_, name);
  put(index_, description);
  put(index_, offset);
  put(index_, std::uint64_t{bytes.size()});
  put(index_, piece_checksum(checksums));
  return ok_status();
}

Status PackedFileWriter::finish() {
  const auto index = std::as_bytes(std::span(index_.data(), index_.size()));
  if (index.size() > kMaxIndexBytes) return internal_error("the index of a packed file is too large");
  Header header;
  PAGODA_RETURN_IF_ERROR(align());
  header.index_offset = end_;
  header.index_bytes = index.size();
  header.file_bytes = header.index_offset + index.size();
  header.index_checksum = xxh64(index);
  header.checksum = header_checksum(header);
  PAGODA_RETURN_IF_ERROR(append(index));
  PAGODA_RETURN_IF_ERROR(flush());
  if (::fsync(file_) != 0) return system_error(path_, "write");
  PAGODA_RETURN_IF_ERROR(write(0, bytes_of(header)));
  if (::fchmod(file_, 0400) != 0 || ::fsync(file_) != 0) return system_error(path_, "write");
  finished_ = true;
  return ok_status();
}

}  // namespace pagoda
