#include "api/answer_store.h"

#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/strings.h"

namespace pagoda {

AnswerStore::AnswerStore(std::size_t max_bytes, std::shared_ptr<const AnswerFiles> files)
    : max_bytes_(max_bytes), files_(std::move(files)) {
  if (files_ == nullptr) return;
  for (AnswerFiles::Found& found : files_->list()) {
    by_use_.push_front(found.id);
    bytes_ += found.bytes;
    StoredAnswer answer{.owner = std::move(found.owner), .answer = {}, .conversation = {}};
    entries_.emplace(
        found.id,
        Entry{.answer = std::move(answer), .bytes = found.bytes, .written = true, .place = by_use_.begin()});
  }
  make_space();
  writer_ = std::thread([this] { write_files(); });
}

AnswerStore::~AnswerStore() {
  if (!writer_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  writer_.join();
}

void AnswerStore::remove(Entries::iterator entry) {
  // A file that is being written is removed by the writer thread.
  if (entry->second.written && entry->first != being_written_) files_->remove(entry->first);
  bytes_ -= entry->second.bytes;
  by_use_.erase(entry->second.place);
  entries_.erase(entry);
}

bool AnswerStore::make_space() {
  for (auto place = by_use_.end(); bytes_ > max_bytes_ && place != by_use_.begin();) {
    const auto entry = entries_.find(*--place);
    if (entry->second.answer.running) continue;
    const auto next = std::next(place);
    remove(entry);
    place = next;
  }
  return bytes_ <= max_bytes_;
}

void AnswerStore::settle(const std::string& id) {
  if (files_ == nullptr) return;
  to_write_.push_back(id);
  changed_.notify_all();
}

bool AnswerStore::add(const std::string& id, StoredAnswer answer) {
  const std::lock_guard lock(mutex_);
  const std::size_t bytes = answer.bytes();
  const bool running = answer.running;
  if (bytes > max_bytes_ || entries_.contains(id) || being_written_ == id) return false;
  by_use_.push_front(id);
  bytes_ += bytes;
  entries_.emplace(id, Entry{.answer = std::move(answer), .bytes = bytes, .place = by_use_.begin()});
  if (make_space()) {
    if (!running) settle(id);
    return true;
  }
  if (const auto entry = entries_.find(id); entry != entries_.end()) remove(entry);
  return false;
}

bool AnswerStore::finish(const std::string& id, std::string answer) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(id);
  if (entry == entries_.end() || !entry->second.answer.running) return false;
  StoredAnswer& known = entry->second.answer;
  bytes_ -= entry->second.bytes;
  known.answer = std::move(answer);
  known.running = false;
  entry->second.bytes = known.bytes();
  bytes_ += entry->second.bytes;
  settle(id);
  make_space();
  return true;
}

std::optional<StoredAnswer> AnswerStore::find(std::string_view id, std::string_view owner) {
  std::shared_ptr<AnswerLog> log;
  {
    const std::lock_guard lock(mutex_);
    const auto entry = entries_.find(id);
    if (entry == entries_.end() || entry->second.answer.owner != owner) return std::nullopt;
    by_use_.splice(by_use_.begin(), by_use_, entry->second.place);
    if (!entry->second.written) return entry->second.answer;
    log = entry->second.answer.log;
  }
  const std::string name(id);
  std::optional<StoredAnswer> read = files_->read(name);
  if (!read || read->owner != owner) {
    const std::lock_guard lock(mutex_);
    const auto entry = entries_.find(id);
    if (entry != entries_.end() && entry->second.written) {
      log_warning("api", "a stored answer can no longer be read");
      remove(entry);
    }
    return std::nullopt;
  }
  files_->note_use(name);
  read->log = std::move(log);
  return read;
}

bool AnswerStore::erase(std::string_view id, std::string_view owner) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(id);
  if (entry == entries_.end() || entry->second.answer.owner != owner) return false;
  remove(entry);
  return true;
}

void AnswerStore::write_files() {
  std::unique_lock lock(mutex_);
  bool warned = false;
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !to_write_.empty(); });
    if (to_write_.empty()) return;
    const std::string id = std::move(to_write_.front());
    to_write_.pop_front();
    auto entry = entries_.find(id);
    if (entry == entries_.end()) continue;
    const StoredAnswer copy = entry->second.answer;
    being_written_ = id;
    lock.unlock();
    const bool written = files_->write(id, copy);
    lock.lock();
    being_written_.clear();
    entry = entries_.find(id);
    if (entry == entries_.end()) {  // erased in the meantime
      files_->remove(id);
    } else if (written) {
      entry->second.written = true;
      entry->second.answer.answer = {};
      entry->second.answer.conversation = {};
    } else if (!std::exchange(warned, true)) {
      log_warning("api", "cannot write to --response-store-dir: answers are stored in memory only");
    }
    changed_.notify_all();
  }
}

void AnswerStore::wait_until_written() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return to_write_.empty() && being_written_.empty(); });
}

std::size_t AnswerStore::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

void AnswerStore::check_invariants() const {
  const std::lock_guard lock(mutex_);
  std::size_t bytes = 0;
  for (const auto& [id, entry] : entries_) {
    bytes += entry.bytes;
    CHECK(*entry.place == id);
    CHECK(!entry.written || (files_ != nullptr && entry.answer.answer.empty() && !entry.answer.running));
  }
  CHECK(bytes == bytes_ && entries_.size() == by_use_.size());
}

}  // namespace pagoda
