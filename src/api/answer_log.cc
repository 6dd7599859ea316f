#include "api/answer_log.h"

#include <algorithm>

namespace pagoda {

// Called under the lock, so that no bell is called after its reader's destruction.
void AnswerLog::ring_all() {
  for (const auto& [id, ring] : bells_) ring();
}

void AnswerLog::append(std::string_view event) {
  const std::lock_guard lock(mutex_);
  full_ = full_ || text_.size() + event.size() > max_bytes_;
  if (full_ || ended_) return;
  text_.append(event);
  ends_.push_back(text_.size());
  ring_all();
}

void AnswerLog::end() {
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  ended_ = true;
  ring_all();
}

std::unique_ptr<AnswerLog::Reader> AnswerLog::follow(std::size_t first, std::function<void()> ring) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t bell = next_bell_++;
  bells_.emplace(bell, std::move(ring));
  return std::unique_ptr<Reader>(new Reader(shared_from_this(), bell, first));
}

AnswerLog::Reader::~Reader() {
  const std::lock_guard lock(log_->mutex_);
  log_->bells_.erase(bell_);
}

bool AnswerLog::Reader::take(std::string& out, std::size_t max_bytes) {
  const std::lock_guard lock(log_->mutex_);
  const std::vector<std::size_t>& ends = log_->ends_;
  const std::size_t before = out.size();
  for (; next_ < ends.size() && out.size() - before < max_bytes; ++next_) {
    const std::size_t begin = next_ == 0 ? 0 : ends[next_ - 1];
    out.append(log_->text_, begin, ends[next_] - begin);
  }
  if (next_ < ends.size()) {
    log_->bells_.at(bell_)();  // more is available already
    return true;
  }
  return !log_->ended_;
}

std::size_t AnswerLog::bytes() const {
  const std::lock_guard lock(mutex_);
  return text_.size() + ends_.size() * sizeof(std::size_t);
}

}  // namespace pagoda
