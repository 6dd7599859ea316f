#include "kv_store/segment_format.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "base/xxh64.h"

namespace pagoda {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::uint64_t kMagic = 0x31474553564B4450u;  // "PDKVSEG1"
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kLabelBytes = 120;
constexpr std::uint32_t kMaxRowTokens = 4096;
constexpr std::uint64_t kMaxRowBytes = std::uint64_t{1} << 30;
constexpr std::uint64_t kMaxHeaderBytes = std::uint64_t{64} << 20;

struct BatchHead {
  std::uint64_t magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t num_rows = 0;
  std::uint64_t segment = 0, offset = 0;
  std::uint64_t header_bytes = 0, bytes = 0;
  KvDigest fingerprint{};
  char label[kLabelBytes] = {};  // zero-terminated unless full
  std::uint64_t checksum = 0;    // covers the whole header, with this field as zero
};
static_assert(sizeof(BatchHead) == 208);

constexpr std::uint32_t kErased = 1;  // flag

struct RowEntry {
  CacheOwner owner = {};
  std::uint64_t reserved[2] = {};
  KvDigest hash{};
  std::int32_t group = 0;
  std::uint32_t num_tokens = 0;
  std::uint64_t bytes = 0, checksum = 0;
  std::uint32_t cost_ms = 0, flags = 0;
};
static_assert(sizeof(RowEntry) == 96);

std::uint64_t header_checksum(std::span<const std::byte> header) {
  constexpr std::size_t kAt = offsetof(BatchHead, checksum), kBehind = sizeof(BatchHead);
  return xxh64(header.subspan(kBehind), xxh64(header.first(kAt)));
}

// True if `head` is consistent with a header at this place. Does not verify the checksum.
bool plausible(const BatchHead& head, std::uint64_t segment, std::uint64_t offset) {
  return head.magic == kMagic && head.version == kVersion && head.segment == segment &&
         head.offset == offset && head.num_rows >= 1 && head.num_rows <= kMaxBatchRows &&
         head.header_bytes % kSegmentAlignment == 0 && head.header_bytes <= kMaxHeaderBytes &&
         head.header_bytes >= sizeof head + head.num_rows * sizeof(RowEntry) &&
         head.bytes >= head.header_bytes && head.bytes <= kMaxBatchBytes;
}

template <class T>
T read_at(std::span<const std::byte> bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

}  // namespace

std::uint64_t row_checksum(const KvKey& key, std::span<const TokenId> tokens,
                           std::span<const std::byte> bytes) {
  return xxh64(bytes, xxh64(std::as_bytes(tokens), xxh64(std::as_bytes(std::span(&key.hash, 1)))));
}

bool fits_in_batch(const KvRow& row) {
  return row.tokens.size() <= kMaxRowTokens && row.bytes.size() <= kMaxRowBytes;
}

void lay_out(SegmentBatch& batch) {
  CHECK(!batch.rows.empty() && batch.rows.size() <= kMaxBatchRows);
  std::uint64_t header = sizeof(BatchHead);
  for (const SegmentRow& row : batch.rows) {
    CHECK(row.tokens.size() <= kMaxRowTokens && row.bytes <= kMaxRowBytes);
    header += sizeof(RowEntry) + row.tokens.size() * sizeof(TokenId);
  }
  batch.header_bytes = segment_padded(header);
  std::uint64_t end = batch.header_bytes;
  for (SegmentRow& row : batch.rows) {
    row.offset = batch.offset + end;
    end += segment_padded(row.bytes);
  }
  batch.bytes = end;
}

std::vector<std::byte> encode_header(const SegmentBatch& batch, std::uint64_t segment) {
  std::vector<std::byte> out(batch.header_bytes);
  BatchHead head;
  head.num_rows = static_cast<std::uint32_t>(batch.rows.size());
  head.segment = segment;
  head.offset = batch.offset;
  head.header_bytes = batch.header_bytes;
  head.bytes = batch.bytes;
  std::memcpy(head.label, batch.label.data(), std::min(batch.label.size(), kLabelBytes));
  std::size_t entry_at = sizeof head, tokens_at = sizeof head + batch.rows.size() * sizeof(RowEntry);
  for (const SegmentRow& row : batch.rows) {
    RowEntry entry;
    entry.num_tokens = static_cast<std::uint32_t>(row.tokens.size());
    entry.bytes = row.bytes;
    if (row.erased) {
      entry.flags = kErased;
    } else {
      head.fingerprint = row.key.fingerprint;
      entry.owner = row.owner;
      entry.hash = row.key.hash;
      entry.group = row.key.group;
      entry.checksum = row.checksum;
      entry.cost_ms = row.cost_ms;
      if (!row.tokens.empty())
        std::memcpy(out.data() + tokens_at, row.tokens.data(), row.tokens.size() * sizeof(TokenId));
    }
    std::memcpy(out.data() + entry_at, &entry, sizeof entry);
    entry_at += sizeof entry;
    tokens_at += row.tokens.size() * sizeof(TokenId);
  }
  std::memcpy(out.data(), &head, sizeof head);
  head.checksum = header_checksum(out);
  std::memcpy(out.data(), &head, sizeof head);
  return out;
}

std::optional<SegmentBatch> decode_header(std::span<const std::byte> bytes, std::uint64_t segment,
                                          std::uint64_t offset, std::uint64_t* need_more) {
  if (bytes.size() < sizeof(BatchHead)) return std::nullopt;
  const auto head = read_at<BatchHead>(bytes, 0);
  if (!plausible(head, segment, offset)) return std::nullopt;
  if (bytes.size() < head.header_bytes) {
    if (need_more != nullptr) *need_more = head.header_bytes;
    return std::nullopt;
  }
  const auto header = bytes.first(head.header_bytes);
  if (head.checksum != header_checksum(header)) return std::nullopt;

  SegmentBatch batch{.offset = offset, .label = std::string(head.label, ::strnlen(head.label, kLabelBytes))};
  batch.rows.resize(head.num_rows);
  std::uint64_t tokens_at = sizeof head + head.num_rows * sizeof(RowEntry);
  for (std::size_t i = 0; i < head.num_rows; ++i) {
    const auto entry = read_at<RowEntry>(header, sizeof head + i * sizeof(RowEntry));
    if (entry.num_tokens > kMaxRowTokens || entry.bytes > kMaxRowBytes ||
        entry.num_tokens * sizeof(TokenId) > header.size() - tokens_at)
      return std::nullopt;
    SegmentRow& row = batch.rows[i];
    row.erased = (entry.flags & kErased) != 0;
    row.key = {
        .fingerprint = row.erased ? KvDigest{} : head.fingerprint, .hash = entry.hash, .group = entry.group};
    row.tokens.resize(entry.num_tokens);
    if (entry.num_tokens > 0)
      std::memcpy(row.tokens.data(), header.data() + tokens_at, entry.num_tokens * sizeof(TokenId));
    tokens_at += entry.num_tokens * sizeof(TokenId);
    row.bytes = entry.bytes;
    row.checksum = entry.checksum;
    row.cost_ms = entry.cost_ms;
    row.owner = entry.owner;
  }
  lay_out(batch);
  if (batch.header_bytes != head.header_bytes || batch.bytes != head.bytes) return std::nullopt;
  return batch;
}

Result<SegmentScan> scan_segment(const StoredFile& file, std::uint64_t file_bytes, std::uint64_t segment) {
  SegmentScan scan;
  std::vector<std::byte> page(kSegmentAlignment), header;
  std::uint64_t at = 0, whole = 0;  // batches before `whole` are already in the result
  const auto batch_at = [&](std::uint64_t offset) -> std::optional<SegmentBatch> {
    const auto have = file.read(offset, page);
    if (!have) return std::nullopt;  // an unreadable page counts as empty
    std::uint64_t need = 0;
    auto batch = decode_header(std::span(page).first(*have), segment, offset, &need);
    if (batch || need == 0 || need > file_bytes - offset) return batch;
    header.resize(need);
    const auto all = file.read(offset, header);
    if (!all || *all < need) return std::nullopt;
    return decode_header(header, segment, offset, nullptr);
  };
  while (at < file_bytes) {
    auto batch = batch_at(at);
    if (!batch || batch->bytes > file_bytes - at) {
      at += kSegmentAlignment;
      continue;
    }
    if (whole < at) scan.gaps.push_back({.begin = whole, .end = at});
    at += batch->bytes;
    whole = at;
    scan.batches.push_back(*std::move(batch));
  }
  if (whole < file_bytes) scan.gaps.push_back({.begin = whole, .end = file_bytes});
  return scan;
}

std::string segment_name(std::uint64_t segment) {
  char text[24];
  std::snprintf(text, sizeof text, "%016llx.kv", static_cast<unsigned long long>(segment));
  return text;
}

std::optional<std::uint64_t> segment_number(std::string_view name) {
  if (name.size() != 19 || !name.ends_with(".kv")) return std::nullopt;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + 16, number, 16);
  if (error != std::errc() || end != name.data() + 16 || segment_name(number) != name) return std::nullopt;
  return number;
}

}  // namespace pagoda
