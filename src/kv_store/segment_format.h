#pragma once
// The bytes of a segment file: batches of rows, one behind the other, each written and synced at once.
//     batch    header, then the rows' K/V, each from a multiple of 4096 on
//     header   BatchHead, a RowEntry for each row, the rows' tokens; padded to a multiple of 4096
// Every header names its segment and place, so a batch that was copied elsewhere is none. A checksum covers a
// header whole, and each row has one of its K/V and tokens. An erased row keeps its sizes alone.
// Little-endian; the version changes with the layout. Trusts no byte. Threads: any.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kv_store/file_layer.h"
#include "kv_store/kv_key.h"

namespace pagoda {

inline constexpr std::uint64_t kSegmentAlignment = 4096;
inline constexpr std::uint32_t kMaxBatchRows = 1024;
inline constexpr std::uint64_t kMaxBatchBytes = std::uint64_t{1} << 32;

constexpr std::uint64_t segment_padded(std::uint64_t bytes) {
  return (bytes + kSegmentAlignment - 1) / kSegmentAlignment * kSegmentAlignment;
}

// A row as a header describes it.
struct SegmentRow {
  KvKey key;
  std::vector<TokenId> tokens = {};
  std::uint64_t offset = 0, bytes = 0;  // its K/V in the file
  std::uint64_t checksum = 0;
  std::uint32_t cost_ms = 0;
  CacheOwner owner = {};
  bool erased = false;  // all but its sizes is zero
};

struct SegmentBatch {
  std::uint64_t offset = 0, header_bytes = 0, bytes = 0;  // bytes: of all of it
  std::string label = {};                                 // for people: the model
  std::vector<SegmentRow> rows = {};                      // they share a fingerprint
};

std::uint64_t row_checksum(const KvKey& key, std::span<const TokenId> tokens,
                           std::span<const std::byte> bytes);

// Whether a row is small enough to be stored at all.
bool fits_in_batch(const KvRow& row);
// Gives each row its offset, and the batch its sizes. CHECKs that it has rows, and not too many.
void lay_out(SegmentBatch& batch);
// The header of a batch that is laid out.
std::vector<std::byte> encode_header(const SegmentBatch& batch, std::uint64_t segment);
// `bytes` begins where the batch would; nullopt: there is none. need_more: how many bytes its header has, if
// there are fewer.
std::optional<SegmentBatch> decode_header(std::span<const std::byte> bytes, std::uint64_t segment,
                                          std::uint64_t offset, std::uint64_t* need_more);

// A part of a file that belongs to no batch.
struct SegmentGap {
  std::uint64_t begin = 0, end = 0;
};
struct SegmentScan {
  std::vector<SegmentBatch> batches;
  std::vector<SegmentGap> gaps;
};
// All whole headers of a file, with what lies between them. The K/V is not read.
Result<SegmentScan> scan_segment(const StoredFile& file, std::uint64_t file_bytes, std::uint64_t segment);

// Names of segment files: 16 hexadecimal digits and ".kv".
std::string segment_name(std::uint64_t segment);
std::optional<std::uint64_t> segment_number(std::string_view name);

}  // namespace pagoda
