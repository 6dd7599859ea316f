#include "kv_store/segment_store.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <unordered_set>
#include <utility>

#include "base/aligned_buffer.h"
#include "base/check.h"
#include "base/strings.h"

namespace pagoda {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kMaxAppendBytes = 64 * kMiB;  // per batch, which is assembled in memory
constexpr std::size_t kMaxSegments = 1024;
constexpr TimeNs kPauseAfterFailure = TimeNs{10} * 1'000'000'000;  // before the next write attempt

std::int64_t segment_bytes(const SegmentStoreConfig& config) {
  if (config.segment_bytes > 0) return config.segment_bytes;
  constexpr std::int64_t kParts = 128, kLeast = 4 * kMiB, kMost = 256 * kMiB;
  return std::clamp(config.max_bytes / kParts, kLeast, kMost);
}

SegmentRow described(const KvRow& row) {
  return {.key = row.key,
          .tokens = {row.tokens.begin(), row.tokens.end()},
          .bytes = row.bytes.size(),
          .checksum = row_checksum(row.key, row.tokens, row.bytes),
          .cost_ms = row.cost_ms,
          .owner = row.owner};
}

// Returns the batches of every file; nullopt for a file that is unreadable or too large to be a segment.
std::vector<std::optional<SegmentScan>> scan_all(const FileLayer& files,
                                                 const std::map<std::uint64_t, StoredFileInfo>& segments,
                                                 int num_threads) {
  std::vector<std::pair<std::uint64_t, const StoredFileInfo*>> list;
  for (const auto& [number, info] : segments) list.emplace_back(number, &info);
  std::vector<std::optional<SegmentScan>> out(list.size());
  std::atomic<std::size_t> next = 0;
  const auto scan = [&] {
    for (std::size_t i = next++; i < list.size(); i = next++) {
      const auto bytes = static_cast<std::uint64_t>(list[i].second->bytes);
      const auto file = files.open(list[i].second->name, FileLayer::Access::read);
      if (!file || bytes > kMaxBatchBytes) continue;
      if (auto found = scan_segment(**file, bytes, list[i].first)) out[i] = *std::move(found);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < std::min<int>(num_threads, static_cast<int>(list.size())); ++i)
    threads.emplace_back(scan);
  scan();
  for (std::thread& thread : threads) thread.join();
  return out;
}

}  // namespace

SegmentStore::SegmentStore(std::unique_ptr<FileLayer> files, const SegmentStoreConfig& config,
                           const Clock& clock)
    : files_(std::move(files)),
      config_({.max_bytes = config.max_bytes,
               .segment_bytes = segment_bytes(config),
               .max_write_bytes_per_hour = config.max_write_bytes_per_hour,
               .scan_threads = config.scan_threads}),
      clock_(clock),
      allowance_(config.max_write_bytes_per_hour, clock) {}

Result<std::unique_ptr<SegmentStore>> SegmentStore::open(std::unique_ptr<FileLayer> files,
                                                         const SegmentStoreConfig& config,
                                                         const Clock& clock) {
  auto names = files->list();
  if (!names) return names.error();
  std::unique_ptr<SegmentStore> store(new SegmentStore(std::move(files), config, clock));
  std::map<std::uint64_t, StoredFileInfo> segments;
  for (StoredFileInfo& file : *names)
    if (const auto number = segment_number(file.name)) segments.emplace(*number, std::move(file));
  auto scans = scan_all(*store->files_, segments, config.scan_threads);
  const std::scoped_lock writing(store->writer_);
  std::size_t next = 0;
  for (const auto& [number, file] : segments) {
    store->next_number_ = number + 1;
    store->adopt(file, number, std::move(scans[next++]));
  }
  store->opened_at_ = store->index_.last_use();
  store->make_space(0);
  return store;
}

// Adopts an existing file and removes the parts of it that belong to no complete batch.
void SegmentStore::adopt(const StoredFileInfo& info, std::uint64_t number, std::optional<SegmentScan> scan) {
  Segment& segment = index_.add_segment(number);
  segment.bytes = static_cast<std::uint64_t>(info.bytes);
  auto file = files_->open(info.name, FileLayer::Access::write);
  if (!file || !scan || scan->batches.empty()) {
    (void)remove(number);
    return;
  }
  bool cleared = true;
  const std::uint64_t file_bytes = segment.bytes;
  for (const SegmentGap& gap : scan->gaps) {
    const bool last = gap.end == file_bytes;
    const Status status = last ? (*file)->truncate(gap.begin) : (*file)->zero(gap.begin, gap.end - gap.begin);
    cleared = cleared && status.ok();
    if (last && status.ok()) segment.bytes = gap.begin;
  }
  if (!scan->gaps.empty()) cleared = (*file)->sync().ok() && cleared;
  segment.unclear = !cleared;
  for (SegmentBatch& batch : scan->batches) index_.add_batch(segment, std::move(batch));
  if (!SegmentIndex::has_rows(segment)) (void)remove(number);
}

std::uint64_t SegmentStore::total_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [number, segment] : index_.segments()) sum += segment->bytes;
  return sum;
}

std::vector<KvStored> SegmentStore::store(std::span<const KvRow> rows, std::string_view label,
                                          std::vector<KvKey>* gone) {
  std::vector<KvStored> out(rows.size(), KvStored::refused);
  const std::scoped_lock writing(writer_);
  dropped_.clear();
  if (failed_at_ && clock_.now() - *failed_at_ < kPauseAfterFailure) {
    const std::scoped_lock lock(mutex_);
    stats_.refused += std::ssize(out);
    return out;
  }
  const std::uint64_t most =
      std::max(static_cast<std::uint64_t>(config_.segment_bytes), 2 * kSegmentAlignment);
  SegmentBatch batch{.label = std::string(label)};
  std::vector<std::span<const std::byte>> bytes;
  std::vector<std::uint64_t> uses;
  std::vector<std::size_t> taken;  // indices into `rows` of the rows in the batch
  std::unordered_set<KvKey, KvKeyHasher> keys;
  std::uint64_t batch_bytes = 0;
  const auto flush = [&] {
    if (batch.rows.empty()) return;
    const KvStored stored = append(std::exchange(batch, {.label = std::string(label)}), bytes, uses);
    for (const std::size_t i : taken) out[i] = stored;
    bytes.clear(), uses.clear(), taken.clear();
    batch_bytes = 0;
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const KvRow& row = rows[i];
    CHECK(row.key.fingerprint == rows.front().key.fingerprint);
    if (!keys.insert(row.key).second || has(row)) {
      out[i] = KvStored::present;
      continue;
    }
    const std::uint64_t size = segment_padded(row.bytes.size());
    const std::uint64_t used = time_of(row.use);
    const bool full = total_bytes() + batch_bytes + size > static_cast<std::uint64_t>(config_.max_bytes);
    if (full && used < evicted_use_) continue;
    if (!fits_in_batch(row) || !allowance_.take(static_cast<std::int64_t>(size))) continue;
    if (batch.rows.size() == kMaxBatchRows || batch_bytes + size > std::min(most, kMaxAppendBytes)) flush();
    batch.rows.push_back(described(row));
    bytes.push_back(row.bytes);
    uses.push_back(used);
    taken.push_back(i);
    batch_bytes += size;
  }
  flush();
  const std::scoped_lock lock(mutex_);
  if (gone != nullptr)
    std::ranges::copy_if(dropped_, std::back_inserter(*gone),
                         [&](const KvKey& key) { return index_.find(key) == nullptr; });
  stats_.refused += std::ranges::count(out, KvStored::refused);
  return out;
}

// Writes the batch after the newest one and makes it visible to lookups once it is synced.
KvStored SegmentStore::append(SegmentBatch batch, std::span<const std::span<const std::byte>> bytes,
                              std::span<const std::uint64_t> uses) {
  lay_out(batch);
  const auto limit = static_cast<std::uint64_t>(config_.segment_bytes);
  if (newest_ != nullptr && newest_->bytes + batch.bytes > limit) seal_newest();
  if (!make_space(batch.bytes)) return KvStored::refused;
  const bool begins = newest_ == nullptr;
  if (begins && !begin_segment().ok()) {
    failed_at_ = clock_.now();
    return KvStored::failed;
  }
  batch.offset = newest_->bytes;
  lay_out(batch);
  AlignedBuffer buffer(batch.bytes);
  const std::vector<std::byte> header = encode_header(batch, newest_->number);
  std::ranges::copy(header, buffer.bytes().begin());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto place =
        buffer.bytes().subspan(batch.rows[i].offset - batch.offset, segment_padded(bytes[i].size()));
    std::ranges::copy(bytes[i], place.begin());
    std::ranges::fill(place.subspan(bytes[i].size()), std::byte{0});
  }
  Status status = newest_file_->write(batch.offset, buffer.bytes());
  if (status.ok()) status = newest_file_->sync();
  if (status.ok() && begins) status = files_->sync_folder();
  if (!status.ok()) {
    failed_at_ = clock_.now();
    cut_newest(batch.offset);
    const std::scoped_lock lock(mutex_);
    ++stats_.failed_writes;
    return KvStored::failed;
  }
  failed_at_.reset();
  const std::scoped_lock lock(mutex_);
  stats_.bytes_written += static_cast<std::int64_t>(batch.bytes);
  index_.add_batch(*newest_, std::move(batch), uses);
  return KvStored::stored;
}

Status SegmentStore::begin_segment() {
  auto file = files_->create(segment_name(next_number_));
  if (!file) return file.error();
  newest_file_ = *std::move(file);
  const std::scoped_lock lock(mutex_);
  newest_ = &index_.add_segment(next_number_++);
  return ok_status();
}

void SegmentStore::seal_newest() {
  newest_file_.reset();
  newest_ = nullptr;
}

// Removes what a failed write may have left after the last complete batch.
void SegmentStore::cut_newest(std::uint64_t end) {
  const std::uint64_t number = newest_->number;
  const bool cut = end > 0 && newest_file_->truncate(end).ok() && newest_file_->sync().ok();
  seal_newest();
  if (!cut) (void)remove(number);
}

// Returns false if the files would exceed max_bytes.
bool SegmentStore::make_space(std::uint64_t bytes) {
  const auto most = static_cast<std::uint64_t>(config_.max_bytes);
  if (bytes > most) return false;
  while (total_bytes() + bytes > most || index_.segments().size() >= kMaxSegments)
    if (!evict_segment()) return false;
  return true;
}

// Evicts one segment. Its recently used rows are written again, up to half of the space that it frees.
bool SegmentStore::evict_segment() {
  const auto [victim, median] = index_.least_used(newest_);
  if (victim == nullptr) return false;
  evicted_use_ = median;
  if (victim == newest_) seal_newest();
  std::vector<std::pair<SegmentRow, std::uint64_t>> rows;  // each with its last use
  {
    const std::scoped_lock lock(mutex_);
    for (const SegmentIndex::Place& place : index_.used_rows(*victim))
      rows.emplace_back(*place.row, place.used);
  }
  const std::uint64_t room = std::min(victim->bytes / 2, kMaxAppendBytes);
  struct Kept {
    SegmentBatch batch;
    std::vector<AlignedBuffer> buffers;
    std::vector<std::uint64_t> uses;
  };
  std::map<KvDigest, Kept> kept;  // by fingerprint
  std::uint64_t kept_bytes = 0;
  const auto file = files_->open(segment_name(victim->number), FileLayer::Access::read);
  for (auto& [row, used] : rows) {
    auto& [batch, buffers, uses] = kept[row.key.fingerprint];
    // Assumes a header per row, which is an upper bound on its share of a common header.
    const std::uint64_t size =
        segment_padded(row.bytes) + kSegmentAlignment + row.tokens.size() * sizeof(TokenId);
    if (!file || kept_bytes + size > room || batch.rows.size() == kMaxBatchRows) break;
    AlignedBuffer buffer(row.bytes);
    const auto got = (*file)->read(row.offset, buffer.bytes());
    if (!got || *got != row.bytes || row_checksum(row.key, row.tokens, buffer.bytes()) != row.checksum)
      continue;
    if (!allowance_.take(static_cast<std::int64_t>(size))) break;
    kept_bytes += size;
    batch.rows.push_back(std::move(row));
    buffers.push_back(std::move(buffer));
    uses.push_back(used);
  }
  for (const SegmentBatch& batch : victim->batches)
    for (auto& [fingerprint, part] : kept)
      if (part.batch.label.empty() && !batch.rows.empty() &&
          batch.rows.front().key.fingerprint == fingerprint)
        part.batch.label = batch.label;
  const auto before = static_cast<std::int64_t>(index_.num_rows());
  if (!remove(victim->number).ok()) return false;
  for (auto& [fingerprint, part] : kept) {
    if (part.batch.rows.empty()) continue;
    std::vector<std::span<const std::byte>> views;
    for (const AlignedBuffer& buffer : part.buffers) views.push_back(buffer.bytes());
    (void)append(std::move(part.batch), views, part.uses);
  }
  const std::scoped_lock lock(mutex_);
  stats_.evicted_rows += before - static_cast<std::int64_t>(index_.num_rows());
  return true;
}

// Lookups no longer find the segment's rows, even if the file cannot be removed.
Status SegmentStore::remove(std::uint64_t number) {
  if (newest_ != nullptr && newest_->number == number) seal_newest();
  const Status status = files_->remove(segment_name(number));
  removed_ = true;
  // Destroyed after the lock is released, because it may be the last reference to the file.
  std::shared_ptr<const StoredFile> closed;
  const std::scoped_lock lock(mutex_);
  Segment& segment = *index_.segments().at(number);
  for (const SegmentBatch& batch : segment.batches)
    for (const SegmentRow& row : batch.rows)
      if (index_.forget(row.key, number, row.offset)) dropped_.push_back(row.key);
  segment.unclear = true;
  const auto open = std::ranges::find(readable_, number, &OpenFile::segment);
  if (open != readable_.end()) {
    closed = std::move(open->file);
    readable_.erase(open);
  }
  if (!status.ok() && status.code() != StatusCode::not_found) return status;
  index_.remove_segment(number);
  return ok_status();
}

bool SegmentStore::has(const KvRow& row) const {
  const std::scoped_lock lock(mutex_);
  return index_.find(row.key, row.tokens) != nullptr;
}

bool SegmentStore::contains(const KvKey& key) const {
  const std::scoped_lock lock(mutex_);
  return index_.find(key) != nullptr;
}

void SegmentStore::each_key(const std::function<void(const KvKey&, const CacheOwner&)>& f) const {
  const std::scoped_lock lock(mutex_);
  index_.each_key(f);
}

std::uint64_t SegmentStore::time_of(std::uint64_t use) {
  const std::scoped_lock lock(mutex_);
  return use == 0 ? index_.now() : opened_at_ + use;
}

void SegmentStore::touch(const KvKey& key, std::uint64_t use) {
  const std::uint64_t when = time_of(use);
  const std::scoped_lock lock(mutex_);
  if (SegmentIndex::Place* const place = index_.find(key)) index_.use(*place, when);
}

std::shared_ptr<const StoredFile> SegmentStore::readable(std::uint64_t segment) {
  constexpr std::size_t kMostOpen = 16;
  const auto known = [&]() -> std::shared_ptr<const StoredFile> {
    const auto open = std::ranges::find(readable_, segment, &OpenFile::segment);
    return open == readable_.end() ? nullptr : open->file;
  };
  {
    const std::scoped_lock lock(mutex_);
    if (auto open = known()) return open;
  }
  auto opened = files_->open(segment_name(segment), FileLayer::Access::read);
  if (!opened) return nullptr;
  std::shared_ptr<const StoredFile> file = *std::move(opened), closed;
  const std::scoped_lock lock(mutex_);
  if (!index_.segments().contains(segment)) return file;  // removed in the meantime
  if (auto open = known()) return open;                   // another thread opened it first
  readable_.push_front({.segment = segment, .file = file});
  if (readable_.size() <= kMostOpen) return file;
  closed = std::move(readable_.back().file);
  readable_.pop_back();
  return file;
}

KvFetched SegmentStore::fetch(const KvKey& key, std::span<const TokenId> tokens, std::span<std::byte> out) {
  std::uint64_t segment = 0, offset = 0, checksum = 0;
  {
    const std::scoped_lock lock(mutex_);
    SegmentIndex::Place* const place = index_.find(key, tokens);
    if (place == nullptr || place->row->bytes != out.size()) {
      ++stats_.misses;
      return KvFetched::miss;
    }
    segment = place->segment->number;
    offset = place->row->offset;
    checksum = place->row->checksum;
  }
  bool whole = false;
  if (const auto file = readable(segment)) {
    const auto got = file->read(offset, out);
    whole = got && *got == out.size() && row_checksum(key, tokens, out) == checksum;
  }
  const std::scoped_lock lock(mutex_);
  if (!whole) {
    ++stats_.lost;
    index_.forget(key, segment, offset);
    return KvFetched::lost;
  }
  ++stats_.hits;
  stats_.bytes_read += static_cast<std::int64_t>(out.size());
  if (SegmentIndex::Place* const place = index_.find(key, tokens)) index_.use(*place, index_.now());
  return KvFetched::hit;
}

SegmentStoreStats SegmentStore::stats() const {
  const std::scoped_lock lock(mutex_);
  SegmentStoreStats out = stats_;
  out.rows = static_cast<std::int64_t>(index_.num_rows());
  out.segments = static_cast<std::int64_t>(index_.segments().size());
  out.bytes = static_cast<std::int64_t>(total_bytes());
  return out;
}

void SegmentStore::check_invariants() const {
  const std::scoped_lock lock(mutex_);
  index_.check_invariants();
  CHECK(total_bytes() <= static_cast<std::uint64_t>(config_.max_bytes));
}

}  // namespace pagoda
