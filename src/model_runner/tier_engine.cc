#include "model_runner/tier_engine.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <limits>
#include <utility>

#include "base/aligned_buffer.h"
#include "base/check.h"

namespace pagoda {

TierEngine::TierEngine(std::vector<std::shared_ptr<KvTier>> tiers, Pages pages,
                       std::unique_ptr<KvRowServer> server)
    : tiers_(std::move(tiers)),
      num_local_(static_cast<std::size_t>(
          std::ranges::count_if(tiers_, [](const auto& tier) { return !tier->is_remote(); }))),
      pages_(std::move(pages)),
      server_(std::move(server)) {
  for (std::size_t i = 0; i < tiers_.size(); ++i) CHECK(tiers_[i]->is_remote() == (i >= num_local_));
  CHECK(tiers_.size() <= std::numeric_limits<TierSet>::digits);
  for (std::size_t i = 0; i < tiers_.size(); ++i) {
    tiers_[i]->listen(this, [this, i](const TierKey& key, const CacheOwner& owner, bool there) {
      on_row_of_others(i, key, owner, there);
    });
    find_rows(i);
  }
  for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { work(); });
  threads_.emplace_back([this] { watch_deadlines(); });
  if (num_local_ < tiers_.size())
    for (int i = 0; i < kRemoteThreads; ++i) threads_.emplace_back([this] { work_remotely(); });
  if (server_) server_->serve(*this);
}

void TierEngine::find_rows(std::size_t tier) {
  tiers_[tier]->each_key([&](const TierKey& key, const CacheOwner& owner) {
    news_.found.push_back({.key = key, .owner = owner, .tiers = TierSet{1} << tier});
  });
}

void TierEngine::on_row_of_others(std::size_t tier, const TierKey& key, const CacheOwner& owner, bool there) {
  const std::lock_guard lock(mutex_);
  if (there)
    news_.found.push_back({.key = key, .owner = owner, .tiers = TierSet{1} << tier});
  else
    news_.gone.push_back({.key = key, .tiers = TierSet{1} << tier});
  wake();
}

TierEngine::~TierEngine() {
  for (const auto& tier : tiers_) tier->listen(this, nullptr);
  {
    const std::lock_guard lock(mutex_);
    serving_ = false;
  }
  settled_.notify_all();
  server_.reset();
  for (const auto& tier : tiers_) tier->stop();
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    stop_at_ = clock_.now() + kLastWrites;
    fetches_.clear();
    remote_.clear();
    wake_ = nullptr;
    if (std::ranges::none_of(tiers_, [](const auto& tier) { return tier->outlives_process(); }))
      stores_.clear();
  }
  work_.notify_all();
  deadlines_changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool TierEngine::has_news() const {
  const std::lock_guard lock(mutex_);
  return !news_.empty();
}

void TierEngine::take_news(TierNews& news) {
  {
    const std::lock_guard lock(mutex_);
    news = std::exchange(news_, {});
    woken_ = false;
  }
  // A row may have come back meanwhile; that news precedes this.
  std::erase_if(news.gone, [this](const TierGone& gone) {
    return tiers_[static_cast<std::size_t>(std::countr_zero(gone.tiers))]->lookup(gone.key);
  });
}

// Holds the lock, so that a removed callback is never called afterwards.
void TierEngine::on_news(std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
  woken_ = false;
  if (!news_.empty()) this->wake();
}

void TierEngine::wake() {
  if (wake_ && !std::exchange(woken_, true)) wake_();
}

void TierEngine::answer(Job& job, bool ok, TierSet tiers) {
  if (job.state == Job::State::answered) return;
  job.state = Job::State::answered;
  if (job.kind == Job::Kind::touch) return;
  if (job.waits()) deadlines_.erase({job.deadline, job.ticket});
  if (job.kind == Job::Kind::store) {
    ++num_stores_answered_;
    settled_.notify_all();  // for has()
  }
  jobs_.erase(job.ticket);
  news_.done.push_back({.ticket = job.ticket, .ok = ok, .tiers = tiers});
  const bool last = --job.batch->num_open == 0;
  if (last || news_.done.size() % kAnswersPerWake == 0) wake();
}

void TierEngine::add(JobPtr job) {
  if (jobs_.size() >= kMaxJobs) return answer(*job, false);
  if (job->kind != Job::Kind::touch) CHECK(jobs_.emplace(job->ticket, job).second);
  if (job->waits()) {
    deadlines_.emplace(job->deadline, job->ticket);
    if (job->kind == Job::Kind::ask && job->ask.keys.empty()) return;  // a timer
    const bool remote = job->kind == Job::Kind::ask || (num_local_ < tiers_.size() && !keeps(job->row.key));
    (remote ? remote_ : fetches_).push_back(std::move(job));
  } else if (job->kind == Job::Kind::store && num_local_ == 0) {
    answer(*job, false);
  } else {
    stores_.push_back(std::move(job));
  }
}

void TierEngine::submit(const TierMoves& moves) {
  if (moves.stores.empty() && moves.fetches.empty() && moves.touches.empty() && moves.asks.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    const TimeNs now = clock_.now();
    const auto stores = std::make_shared<Batch>(Batch{.num_open = moves.stores.size()});
    const auto fetches = std::make_shared<Batch>(Batch{.num_open = moves.fetches.size()});
    const auto deadline = [now](double patience_s) {
      return now + static_cast<TimeNs>(std::clamp(patience_s, 0.0, 1e6) * 1e9);
    };
    for (const TierAsk& ask : moves.asks)
      add(std::make_shared<Job>(Job{.kind = Job::Kind::ask,
                                    .ticket = ask.ticket,
                                    .row = {},
                                    .pages = {},
                                    .batch = std::make_shared<Batch>(Batch{.num_open = 1}),
                                    .deadline = deadline(ask.patience_s),
                                    .ask = ask}));
    for (const TierFetch& fetch : moves.fetches)
      add(std::make_shared<Job>(Job{.kind = Job::Kind::fetch,
                                    .ticket = fetch.ticket,
                                    .row = fetch.row,
                                    .pages = fetch.pages,
                                    .batch = fetches,
                                    .deadline = deadline(fetch.patience_s)}));
    // Touches come before stores, which must not evict the beginning of their own texts.
    if (!moves.touches.empty())
      add(std::make_shared<Job>(
          Job{.kind = Job::Kind::touch, .row = {}, .pages = {}, .batch = {}, .touches = moves.touches}));
    for (const TierStore& store : moves.stores)
      add(std::make_shared<Job>(Job{.kind = Job::Kind::store,
                                    .ticket = store.ticket,
                                    .row = store.row,
                                    .pages = store.pages,
                                    .batch = stores}));
  }
  work_.notify_all();
  if (!moves.fetches.empty() || !moves.asks.empty()) deadlines_changed_.notify_all();
}

void TierEngine::cancel(std::span<const TierTicket> tickets) {
  if (tickets.empty()) return;
  Lock lock(mutex_);
  for (const TierTicket ticket : tickets) {
    const auto it = jobs_.find(ticket);
    if (it == jobs_.end()) continue;
    const JobPtr job = it->second;
    settled_.wait(lock, [&] { return job->state != Job::State::copying; });
    if (job->state != Job::State::copied) answer(*job, false);
  }
}

void TierEngine::erase_all(Erase which) {
  Lock lock(mutex_);
  for (const auto& [ticket, job] : jobs_)
    if (job->state == Job::State::queued || job->state == Job::State::reading)
      job->state = Job::State::answered;
  fetches_.clear();
  stores_.clear();
  remote_.clear();
  deadlines_.clear();
  ++num_erasures_;
  settled_.wait(lock, [this] { return num_working_ == 0 && !erasing_; });
  jobs_.clear();
  news_ = {};
  for (std::size_t i = 0; i < tiers_.size(); ++i) {
    if (which == Erase::all || !tiers_[i]->outlives_process())
      tiers_[i]->erase_all();
    else
      find_rows(i);
  }
}

void TierEngine::erase(TierErase what, Done done) {
  {
    const std::lock_guard lock(mutex_);
    std::vector<JobPtr> ended;
    for (const auto& [ticket, job] : jobs_)
      if (job->kind == Job::Kind::store && job->state == Job::State::queued &&
          what.keys.contains(job->row.key))
        ended.push_back(job);
    for (const JobPtr& job : ended) answer(*job, false);
    ++num_erasures_;
    erases_.push_back({.what = std::move(what), .done = std::move(done)});
  }
  work_.notify_all();
}

// Waits until the other threads finish their jobs, so that no row is stored that was already in progress.
void TierEngine::erase_next(Lock& lock) {
  const EraseJob job = std::move(erases_.front());
  erases_.pop_front();
  erasing_ = true;
  settled_.wait(lock, [this] { return num_working_ == 0; });
  lock.unlock();
  Status status = ok_status();
  for (const auto& tier : tiers_)
    if (Status erased = tier->erase(job.what); !erased.ok()) status = std::move(erased);
  job.done(std::move(status));
  lock.lock();
  erasing_ = false;
  settled_.notify_all();
  work_.notify_all();
}

void TierEngine::watch_deadlines() {
  Lock lock(mutex_);
  while (!stopping_) {
    if (deadlines_.empty()) {
      deadlines_changed_.wait(lock);
      continue;
    }
    const auto [deadline, ticket] = *deadlines_.begin();
    if (const TimeNs now = clock_.now(); deadline > now) {
      deadlines_changed_.wait_for(lock, std::chrono::nanoseconds(deadline - now));
      continue;
    }
    deadlines_.erase(deadlines_.begin());
    const JobPtr job = jobs_.at(ticket);
    if (job->state != Job::State::copying) answer(*job, false);
  }
}

void TierEngine::work() {
  AlignedBuffer buffer(0);  // grows to the largest row
  Lock lock(mutex_);
  const auto may_store = [this] { return !stores_.empty() && num_storing_ < kStoringThreads; };
  for (;;) {
    work_.wait(lock, [&] {
      return !erasing_ && (stopping_ || !erases_.empty() || !fetches_.empty() || may_store());
    });
    if (!erases_.empty()) {
      erase_next(lock);
      continue;
    }
    if (stopping_ && (!may_store() || clock_.now() >= stop_at_)) return;
    const bool stores = fetches_.empty();
    std::deque<JobPtr>& queue = stores ? stores_ : fetches_;
    const JobPtr job = std::move(queue.front());
    queue.pop_front();
    if (job->state == Job::State::answered) continue;
    ++num_working_;
    num_storing_ += stores ? 1 : 0;
    if (const std::size_t size = job->pages.size() * pages_.bytes; buffer.bytes().size() < size)
      buffer = AlignedBuffer(size);
    const std::span<std::byte> bytes = buffer.bytes().first(job->pages.size() * pages_.bytes);
    switch (job->kind) {
      case Job::Kind::store:
        store(*job, bytes, lock);
        break;
      case Job::Kind::fetch:
        fetch(*job, bytes, lock);
        break;
      case Job::Kind::ask:  // handled by the remote threads
        break;
      case Job::Kind::touch:
        lock.unlock();
        for (const TierRow& row : job->touches)
          for (const auto& tier : tiers_) tier->touch(row);
        lock.lock();
        break;
    }
    --num_working_;
    num_storing_ -= stores ? 1 : 0;
    settled_.notify_all();
  }
}

void TierEngine::store(Job& job, std::span<std::byte> bytes, Lock& lock) {
  job.state = Job::State::copying;
  lock.unlock();
  const bool read = pages_.read(job.pages, bytes);
  lock.lock();
  job.state = Job::State::copied;
  settled_.notify_all();
  if (!read) return answer(job, false);
  const bool last = stopping_;
  lock.unlock();
  TierSet kept = 0;
  std::vector<TierGone> gone;
  for (std::size_t i = 0; i < num_local_; ++i)
    if ((!last || tiers_[i]->outlives_process()) && store_in(i, job.row, bytes, gone))
      kept |= TierSet{1} << i;
  lock.lock();
  answer(job, kept != 0, kept);
  news_.gone.insert(news_.gone.end(), gone.begin(), gone.end());
}

bool TierEngine::store_in(std::size_t tier, const TierRow& row, std::span<const std::byte> bytes,
                          std::vector<TierGone>& gone) {
  std::vector<TierKey> dropped;
  const bool kept = tiers_[tier]->store(row, bytes, dropped);
  for (const TierKey& key : dropped) gone.push_back({.key = key, .tiers = TierSet{1} << tier});
  return kept;
}

bool TierEngine::fetch_from_tiers(const TierRow& row, std::span<std::byte> bytes, TierSet& stored,
                                  std::vector<TierGone>& gone) {
  for (std::size_t i = 0; i < num_local_; ++i) {
    if (!tiers_[i]->lookup(row.key) || !tiers_[i]->fetch(row, bytes)) continue;
    for (std::size_t faster = 0; faster < i; ++faster)
      if (store_in(faster, row, bytes, gone)) stored |= TierSet{1} << faster;
    return true;
  }
  return false;
}

void TierEngine::fetch(Job& job, std::span<std::byte> bytes, Lock& lock) {
  job.state = Job::State::reading;
  lock.unlock();
  TierSet stored = 0;
  std::vector<TierGone> gone;
  const bool found = fetch_from_tiers(job.row, bytes, stored, gone);
  lock.lock();
  news_.gone.insert(news_.gone.end(), gone.begin(), gone.end());
  if (job.state == Job::State::answered) return;  // too late or cancelled
  if (!found) return answer(job, false);
  copy_in(job, bytes, stored, lock);
}

void TierEngine::copy_in(Job& job, std::span<const std::byte> bytes, TierSet stored, Lock& lock) {
  job.state = Job::State::copying;
  lock.unlock();
  const bool written = pages_.write(job.pages, bytes);
  lock.lock();
  answer(job, written, written ? stored : 0);
}

}  // namespace pagoda
