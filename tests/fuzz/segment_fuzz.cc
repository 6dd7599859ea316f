// Any bytes as a file of segments, once as they are and once with the checksum of their first header made
// right: opened, asked for every row, erased and looked at again.
// links: kv_store
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "base/xxh64.h"
#include "kv_store/inspect_segments.h"
#include "kv_store/memory_files.h"
#include "kv_store/segment_store.h"

namespace {

class NoClock final : public pagoda::Clock {
 public:
  pagoda::TimeNs now() const override { return 0; }
};

constexpr std::size_t kChecksumAt = 200, kHead = 208;

void make_right(std::vector<std::byte>& bytes) {
  std::uint64_t header = 0;
  if (bytes.size() < kHead) return;
  const std::uint64_t magic = 0x31474553564B4450u;
  std::memcpy(bytes.data(), &magic, sizeof magic);
  std::memcpy(&header, bytes.data() + 32, sizeof header);
  if (header > bytes.size() || header < kHead) return;
  const auto whole = std::span(bytes).first(header);
  const std::uint64_t sum = pagoda::xxh64(whole.subspan(kHead), pagoda::xxh64(whole.first(kChecksumAt)));
  std::memcpy(bytes.data() + kChecksumAt, &sum, sizeof sum);
}

void read(const std::vector<std::byte>& bytes) {
  pagoda::MemoryFiles owned;
  owned.put(pagoda::segment_name(1), bytes);
  const auto file = owned.open(pagoda::segment_name(1), pagoda::FileLayer::Access::read);
  const auto scan = pagoda::scan_segment(**file, bytes.size(), 1);
  (void)pagoda::inspect_segments(owned, pagoda::InspectDepth::every_byte);
  auto files = std::make_unique<pagoda::MemoryFiles>();
  files->put(pagoda::segment_name(1), bytes);
  const NoClock clock;
  const auto store = pagoda::SegmentStore::open(std::move(files), {.max_bytes = 1 << 20}, clock);
  if (!store) std::abort();
  for (const pagoda::SegmentBatch& batch : scan->batches) {
    for (const pagoda::SegmentRow& row : batch.rows) {
      std::vector<std::byte> out(row.bytes);
      if ((*store)->fetch(row.key, row.tokens, out) == pagoda::KvFetched::hit &&
          pagoda::row_checksum(row.key, row.tokens, out) != row.checksum)
        std::abort();
    }
    if (batch.rows.empty()) continue;
    const pagoda::CacheOwner first = batch.rows.front().owner;
    (void)(*store)->erase(
        [&](const pagoda::KvKey&, const pagoda::CacheOwner& owner) { return owner == first; });
  }
  (*store)->check_invariants();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  std::vector<std::byte> bytes(input.begin(), input.end());
  read(bytes);
  bytes.resize((bytes.size() + 4095) / 4096 * 4096);
  make_right(bytes);
  read(bytes);
  return 0;
}
