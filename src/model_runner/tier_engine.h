#pragma once
// TierEngine: carries out the tier moves of batches (request/tier_moves.h) on its own threads, beside steps.
// A row is stored in all its tiers; a fetch reads the first tier that has it and fills those before.
//     store: queued -> copying (the pool's pages are read) -> copied -> answered
//     fetch: queued -> reading (into a buffer) -> copying (the pages are written) -> answered
//     ask:   queued -> reading (remote tiers are asked) -> answered
// Rows that only remote tiers can have use separate threads, so that no network delays a local tier. Pages
// are accessed only while copying, which is short: a hanging disk holds no page, and cancel() waits for one
// row's copy at most. A fetch past its deadline is lost. Fetches precede stores.
// Invariant: every ticket is answered once, unless erase_all() ends it.
// Threads: one caller; its own threads call on_news()'s function.
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "request/kv_row_source.h"
#include "request/kv_tier.h"

namespace pagoda {

class TierEngine final : public KvRowSource {
 public:
  // Copies the pages of a row, contiguously; callable from any thread, concurrently. If false, the copy
  // failed and the destination's content is undefined.
  struct Pages {
    std::size_t bytes = 0;  // per page
    std::function<bool(std::span<const BlockId>, std::span<std::byte>)> read;
    std::function<bool(std::span<const BlockId>, std::span<const std::byte>)> write;
  };
  // `tiers`: fastest first, remote tiers last; other engines may share them. `server` (may be null) serves
  // the rows of local tiers to others.
  TierEngine(std::vector<std::shared_ptr<KvTier>> tiers, Pages pages,
             std::unique_ptr<KvRowServer> server = nullptr);
  // Finishes queued writes to tiers that outlive the process, for a few seconds at most.
  ~TierEngine() override;
  TierEngine(const TierEngine&) = delete;
  TierEngine& operator=(const TierEngine&) = delete;

  // Once this returns, none of these tickets accesses a page.
  void cancel(std::span<const TierTicket> tickets);
  void submit(const TierMoves& moves);
  bool has_news() const;
  void take_news(TierNews& news);
  // `wake` is called when all stores or all fetches of a submit() are answered, and sometimes before; null:
  // no callback.
  void on_news(std::function<void()> wake);
  // Ends all transfers and forgets all rows: in every tier, or only in tiers that do not outlive the process.
  // Rows of the other tiers are rediscovered.
  enum class Erase : std::uint8_t { all, what_ends_with_the_process };
  void erase_all(Erase which = Erase::all);
  // Erases these rows from every tier, including rows still being stored. `done` is called once, on a thread
  // of this engine, when the rows are gone or could not be erased.
  using Done = std::function<void(Status)>;
  void erase(TierErase what, Done done);

  std::vector<bool> has(const Question& question) override;
  [[nodiscard]] bool read(const TierRow& row, std::span<std::byte> bytes) override;

 private:
  // Disks read fastest with several reads in flight; writes take time from the steps.
  static constexpr int kThreads = 8, kStoringThreads = 2, kRemoteThreads = 2;
  // Waking the caller for each row of a long prompt would take the processor from the threads that bring the
  // rows.
  static constexpr std::size_t kAnswersPerWake = 64;
  static constexpr TimeNs kLastWrites = TimeNs{3} * 1'000'000'000;
  static constexpr std::size_t kMaxJobs = 16384;  // further jobs are answered as lost
  struct Batch {                                  // the stores or the fetches of one submit()
    std::size_t num_open = 0;
  };
  struct Job {
    enum class Kind : std::uint8_t { store, fetch, touch, ask };
    enum class State : std::uint8_t { queued, reading, copying, copied, answered };
    Kind kind = Kind::store;
    State state = State::queued;
    TierTicket ticket{};
    TierRow row;
    std::vector<BlockId> pages;
    std::shared_ptr<Batch> batch;  // null for a touch
    TimeNs deadline = 0;           // for fetches and asks
    std::vector<TierRow> touches = {};
    TierAsk ask = {};
    bool waits() const { return kind == Kind::fetch || kind == Kind::ask; }
  };
  using JobPtr = std::shared_ptr<Job>;
  struct EraseJob {
    TierErase what;
    Done done;
  };

  // Called with the lock held; released while copying or waiting.
  using Lock = std::unique_lock<std::mutex>;
  void add(JobPtr job);
  void answer(Job& job, bool ok, TierSet tiers = 0);
  void wake();
  void find_rows(std::size_t tier);
  void on_row_of_others(std::size_t tier, const TierKey& key, const CacheOwner& owner, bool there);
  void work();
  void erase_next(Lock& lock);
  void watch_deadlines();
  void store(Job& job, std::span<std::byte> bytes, Lock& lock);
  void fetch(Job& job, std::span<std::byte> bytes, Lock& lock);
  bool fetch_from_tiers(const TierRow& row, std::span<std::byte> bytes, TierSet& stored,
                        std::vector<TierGone>& gone);
  bool store_in(std::size_t tier, const TierRow& row, std::span<const std::byte> bytes,
                std::vector<TierGone>& gone);

  // Copies into the pages; `stored`: the tiers that now hold a copy.
  void copy_in(Job& job, std::span<const std::byte> bytes, TierSet stored, Lock& lock);
  void work_remotely();
  void ask(Job& job, Lock& lock);
  void fetch_remote(Job& job, std::span<std::byte> bytes, Lock& lock);
  bool keeps(const TierKey& key) const;

  const std::vector<std::shared_ptr<KvTier>> tiers_;
  const std::size_t num_local_;  // tiers_ begins with the local ones
  const Pages pages_;
  const SteadyClock clock_;
  mutable std::mutex mutex_;
  std::condition_variable work_, settled_, deadlines_changed_;
  std::deque<JobPtr> fetches_, stores_, remote_;
  std::unordered_map<TierTicket, JobPtr> jobs_;        // not answered yet
  std::set<std::pair<TimeNs, TierTicket>> deadlines_;  // deadlines of fetches and asks
  std::deque<EraseJob> erases_;
  int num_working_ = 0;   // threads working on jobs of any kind
  int num_storing_ = 0;   // threads working on jobs of stores_
  bool erasing_ = false;  // one thread erases while the others wait
  std::uint64_t num_erasures_ = 0, num_stores_answered_ = 0;
  bool stopping_ = false, serving_ = true;
  TimeNs stop_at_ = 0;  // no writes after this time
  TierNews news_;
  std::function<void()> wake_;
  bool woken_ = false;  // since the last take_news()
  std::vector<std::thread> threads_;
  std::unique_ptr<KvRowServer> server_;
};

}  // namespace pagoda
