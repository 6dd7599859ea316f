#pragma once
// The layout of a segment file: consecutive batches of rows, each written and synced as a unit.
//     batch    header, then the K/V of each row, aligned to 4096 bytes
//     header   BatchHead, a RowEntry for each row, the tokens of the rows; padded to a multiple of 4096
// Every header contains its segment number and offset, so a batch copied elsewhere is not valid. A checksum
// covers the whole header, and each row has a checksum of its K/V and tokens. An erased row keeps only its
// sizes. Little-endian; the version changes with the layout. Parsers trust no byte. Threads: any.
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

// A row as described by a batch header.
struct SegmentRow {
  KvKey key;
  std::vector<TokenId> tokens = {};
  std::uint64_t offset = 0, bytes = 0;  // position of its K/V in the file
  std::uint64_t checksum = 0;
  std::uint32_t cost_ms = 0;
  CacheOwner owner = {};
  bool erased = false;  // everything except its sizes is zero
};

struct SegmentBatch {
  std::uint64_t offset = 0, header_bytes = 0, bytes = 0;  // bytes: size of the whole batch
  std::string label = {};                                 // the model's name, for display
  std::vector<SegmentRow> rows = {};                      // all of the same fingerprint
};

std::uint64_t row_checksum(const KvKey& key, std::span<const TokenId> tokens,
                           std::span<const std::byte> bytes);

// True if a row is small enough to be stored.
bool fits_in_batch(const KvRow& row);
// Sets the offset of each row and the sizes of the batch. CHECKs that the number of rows is at least 1 and
// within the limit.
void lay_out(SegmentBatch& batch);
// Returns the header of a batch after lay_out().
std::vector<std::byte> encode_header(const SegmentBatch& batch, std::uint64_t segment);
// `bytes` begins at the offset of the batch. nullopt if there is no valid header; if `bytes` is too short to
// hold the header, *need_more is set to the header's size.
std::optional<SegmentBatch> decode_header(std::span<const std::byte> bytes, std::uint64_t segment,
                                          std::uint64_t offset, std::uint64_t* need_more);

// A range of a file that belongs to no batch.
struct SegmentGap {
  std::uint64_t begin = 0, end = 0;
};
struct SegmentScan {
  std::vector<SegmentBatch> batches;
  std::vector<SegmentGap> gaps;
};
// Returns all complete headers of a file and the gaps between batches. Does not read the K/V.
Result<SegmentScan> scan_segment(const StoredFile& file, std::uint64_t file_bytes, std::uint64_t segment);

// Names of segment files: 16 hexadecimal digits followed by ".kv".
std::string segment_name(std::uint64_t segment);
std::optional<std::uint64_t> segment_number(std::string_view name);

}  // namespace pagoda
