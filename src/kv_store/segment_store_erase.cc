// SegmentStore::erase(): removes rows from the files.
#include <utility>

#include "kv_store/segment_store.h"

namespace pagoda {

// Overwrites the K/V of the rows, then marks them as erased in the headers of their batches.
Status SegmentStore::clear_rows(Segment& segment, const KvRowFilter& which) {
  std::unique_ptr<StoredFile> opened;
  StoredFile* file = &segment == newest_ ? newest_file_.get() : nullptr;
  if (file == nullptr) {
    auto again = files_->open(segment_name(segment.number), FileLayer::Access::write);
    if (!again) return again.error();
    opened = *std::move(again);
    file = opened.get();
  }
  std::vector<SegmentRow> gone;
  for (const SegmentBatch& batch : segment.batches)
    for (const SegmentRow& row : batch.rows)
      if (!row.erased && which(row.key, row.owner)) gone.push_back(row);
  std::vector<SegmentBatch*> changed;
  {
    const std::scoped_lock lock(mutex_);
    changed = SegmentIndex::mark_erased(segment, which);
  }
  for (const SegmentRow& row : gone)
    if (row.bytes > 0) PAGODA_RETURN_IF_ERROR(file->zero(row.offset, segment_padded(row.bytes)));
  for (const SegmentBatch* batch : changed)
    PAGODA_RETURN_IF_ERROR(file->write(batch->offset, encode_header(*batch, segment.number)));
  return file->sync();
}

Result<std::int64_t> SegmentStore::erase(const KvRowFilter& which) {
  const std::scoped_lock writing(writer_);
  std::int64_t rows = 0;
  std::vector<Segment*> segments;
  {
    const std::scoped_lock lock(mutex_);
    rows = index_.forget(which);
    stats_.erased_rows += rows;
    for (const auto& [number, segment] : index_.segments()) segments.push_back(segment.get());
  }
  Status status = ok_status();
  for (Segment* segment : segments) {
    bool any = segment->unclear, others = false;
    for (const SegmentBatch& batch : segment->batches)
      for (const SegmentRow& row : batch.rows)
        if (!row.erased) (which(row.key, row.owner) ? any : others) = true;
    if (!any) continue;
    if (others && !segment->unclear && clear_rows(*segment, which).ok()) continue;
    // Otherwise the whole file is removed.
    if (Status removed = remove(segment->number); !removed.ok()) status = std::move(removed);
  }
  if (removed_) {
    if (Status synced = files_->sync_folder(); !synced.ok()) return synced;
    removed_ = !status.ok();
  }
  if (!status.ok()) return status;
  return rows;
}

}  // namespace pagoda
