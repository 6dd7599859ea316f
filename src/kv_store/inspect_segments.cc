#include "kv_store/inspect_segments.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/aligned_buffer.h"
#include "kv_store/segment_format.h"

namespace pagoda {
namespace {

bool is_whole(const StoredFile& file, const SegmentRow& row) {
  AlignedBuffer buffer(row.bytes);
  const auto got = file.read(row.offset, buffer.bytes());
  return got && *got == row.bytes && row_checksum(row.key, row.tokens, buffer.bytes()) == row.checksum;
}

}  // namespace

Result<KvContents> inspect_segments(const FileLayer& files, InspectDepth depth) {
  const auto names = files.list();
  if (!names) return names.error();
  KvContents out;
  std::map<KvDigest, KvContents::Model> models;
  for (const StoredFileInfo& info : *names) {
    const auto number = segment_number(info.name);
    if (!number) continue;
    const auto file = files.open(info.name, FileLayer::Access::read);
    if (!file && file.error().code() == StatusCode::not_found) continue;  // evicted in the meantime
    ++out.files;
    out.file_bytes += info.bytes;
    const auto scan = file ? scan_segment(**file, static_cast<std::uint64_t>(info.bytes), *number)
                           : Result<SegmentScan>(SegmentScan{});
    if (!scan || scan->batches.empty()) {
      out.torn_bytes += info.bytes;
      continue;
    }
    for (const SegmentGap& gap : scan->gaps) out.torn_bytes += static_cast<std::int64_t>(gap.end - gap.begin);
    for (const SegmentBatch& batch : scan->batches) {
      for (const SegmentRow& row : batch.rows) {
        if (row.erased) continue;
        KvContents::Model& model = models[row.key.fingerprint];
        model.fingerprint = row.key.fingerprint;
        model.label = batch.label;
        ++model.rows;
        model.tokens += static_cast<std::int64_t>(row.tokens.size());
        model.bytes += static_cast<std::int64_t>(row.bytes);
        if (depth == InspectDepth::every_byte && !is_whole(**file, row)) ++model.damaged_rows;
      }
    }
  }
  for (auto& [fingerprint, model] : models) out.models.push_back(std::move(model));
  std::ranges::sort(out.models, [](const auto& a, const auto& b) {
    return std::pair(b.bytes, a.fingerprint) < std::pair(a.bytes, b.fingerprint);
  });
  return out;
}

}  // namespace pagoda
