#include "api/answer_store.h"

#include <utility>

#include "base/check.h"

namespace pagoda {

void AnswerStore::remove(Entries::iterator entry) {
  bytes_ -= entry->second.answer.bytes();
  by_use_.erase(entry->second.place);
  entries_.erase(entry);
}

bool AnswerStore::make_room() {
  for (auto place = by_use_.end(); bytes_ > max_bytes_ && place != by_use_.begin();) {
    const auto entry = entries_.find(*--place);
    if (entry->second.answer.running) continue;
    const auto next = std::next(place);
    remove(entry);
    place = next;
  }
  return bytes_ <= max_bytes_;
}

bool AnswerStore::add(const std::string& id, StoredAnswer answer) {
  const std::lock_guard lock(mutex_);
  if (answer.bytes() > max_bytes_ || entries_.contains(id)) return false;
  by_use_.push_front(id);
  bytes_ += answer.bytes();
  entries_.emplace(id, Entry{.answer = std::move(answer), .place = by_use_.begin()});
  if (make_room()) return true;
  if (const auto entry = entries_.find(id); entry != entries_.end()) remove(entry);
  return false;
}

bool AnswerStore::finish(const std::string& id, std::string answer) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(id);
  if (entry == entries_.end() || !entry->second.answer.running) return false;
  StoredAnswer& known = entry->second.answer;
  bytes_ -= known.bytes();
  known.answer = std::move(answer);
  known.running = false;
  bytes_ += known.bytes();
  make_room();
  return true;
}

std::optional<StoredAnswer> AnswerStore::find(std::string_view id, std::string_view owner) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(id);
  if (entry == entries_.end() || entry->second.answer.owner != owner) return std::nullopt;
  by_use_.splice(by_use_.begin(), by_use_, entry->second.place);
  return entry->second.answer;
}

bool AnswerStore::erase(std::string_view id, std::string_view owner) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(id);
  if (entry == entries_.end() || entry->second.answer.owner != owner) return false;
  remove(entry);
  return true;
}

std::size_t AnswerStore::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

void AnswerStore::check_invariants() const {
  const std::lock_guard lock(mutex_);
  std::size_t bytes = 0;
  for (const auto& [id, entry] : entries_) {
    bytes += entry.answer.bytes();
    CHECK(*entry.place == id);
  }
  CHECK(bytes == bytes_ && entries_.size() == by_use_.size());
}

}  // namespace pagoda
