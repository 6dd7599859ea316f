#pragma once
// TierEngine: carries out the tier moves of batches (request/tier_moves.h) on threads of its own, beside the
// steps. A row goes to all of its tiers; it comes from the first that has it, and is stored in those before.
//     store: queued -> copying (the pool's pages are read) -> copied -> answered
//     fetch: queued -> reading (into a buffer) -> copying (the pages are written) -> answered
//     ask:   queued -> reading (remote tiers are asked) -> answered
// Rows that only remote tiers can have are fetched on threads of their own, so that no network delays a local
// tier. Pages are touched while copying alone, which is short: a disk that hangs holds no page, and cancel()
// waits for a row's copy at most. A fetch that outlasts its patience is lost. Fetches go before stores.
// Invariant: every ticket is answered once, but for those that erase_all() ends. Threads: one caller beside
// its own, on which on_news()'s function is called.
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
  // Copies the pages of a row, one behind the other; from any thread, several at once. False: they could not
  // be copied, and where they were to go may hold anything.
  struct Pages {
    std::size_t bytes = 0;  // a page has so many
    std::function<bool(std::span<const BlockId>, std::span<std::byte>)> read;
    std::function<bool(std::span<const BlockId>, std::span<const std::byte>)> write;
  };
  // The fastest first, remote ones last; other engines may share some. `server`, which may be null, serves
  // the rows of the local ones.
  TierEngine(std::vector<std::shared_ptr<KvTier>> tiers, Pages pages,
             std::unique_ptr<KvRowServer> server = nullptr);
  // Writes what is queued for tiers that outlive the process, for a few seconds at most.
  ~TierEngine() override;
  TierEngine(const TierEngine&) = delete;
  TierEngine& operator=(const TierEngine&) = delete;

  // From here on none of these tickets touches a page.
  void cancel(std::span<const TierTicket> tickets);
  void submit(const TierMoves& moves);
  bool has_news() const;
  void take_news(TierNews& news);
  // Called when all stores or all fetches of a submit() are answered, and now and then before; null: nobody.
  void on_news(std::function<void()> wake);
  // Ends everything, and forgets all rows: in every tier, or in those alone that do not outlive the process,
  // whose rows are found again.
  enum class Erase : std::uint8_t { all, what_ends_with_the_process };
  void erase_all(Erase which = Erase::all);
  // Erases these rows from every tier, also those that are on their way there. `done` is called once, when
  // they are gone or could not be erased, on a thread of this.
  using Done = std::function<void(Status)>;
  void erase(TierErase what, Done done);

  std::vector<bool> has(const Question& question) override;
  [[nodiscard]] bool read(const TierRow& row, std::span<std::byte> bytes) override;

 private:
  // A disk reads fastest with several reads under way; writes take time from the steps.
  static constexpr int kThreads = 8, kStoringThreads = 2, kRemoteThreads = 2;
  // A caller that is woken for each row of a long prompt takes the processor from those that bring the rows.
  static constexpr std::size_t kAnswersPerWake = 64;
  static constexpr TimeNs kLastWrites = TimeNs{3} * 1'000'000'000;
  static constexpr std::size_t kMaxJobs = 16384;  // more are answered as lost
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
    std::shared_ptr<Batch> batch;  // a touch has none
    TimeNs deadline = 0;           // a fetch or an ask has one
    std::vector<TierRow> touches = {};
    TierAsk ask = {};
    bool waits() const { return kind == Kind::fetch || kind == Kind::ask; }
  };
  using JobPtr = std::shared_ptr<Job>;
  struct EraseJob {
    TierErase what;
    Done done;
  };

  // Called with the lock held, which they give up while they copy or wait.
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

  // Into the pages; these tiers keep a copy now.
  void copy_in(Job& job, std::span<const std::byte> bytes, TierSet stored, Lock& lock);
  void work_remotely();
  void ask(Job& job, Lock& lock);
  void fetch_remote(Job& job, std::span<std::byte> bytes, Lock& lock);
  bool keeps(const TierKey& key) const;

  const std::vector<std::shared_ptr<KvTier>> tiers_;
  const std::size_t num_local_;  // so many of them are local, and come first
  const Pages pages_;
  const SteadyClock clock_;
  mutable std::mutex mutex_;
  std::condition_variable work_, settled_, deadlines_changed_;
  std::deque<JobPtr> fetches_, stores_, remote_;
  std::unordered_map<TierTicket, JobPtr> jobs_;        // not answered
  std::set<std::pair<TimeNs, TierTicket>> deadlines_;  // those of fetches and asks
  std::deque<EraseJob> erases_;
  int num_working_ = 0;   // on jobs of any kind
  int num_storing_ = 0;   // on those of stores_
  bool erasing_ = false;  // one of the threads erases, and the others wait
  std::uint64_t num_erasures_ = 0, num_stores_answered_ = 0;
  bool stopping_ = false, serving_ = true;
  TimeNs stop_at_ = 0;  // nothing is written later than this
  TierNews news_;
  std::function<void()> wake_;
  bool woken_ = false;  // since the news were taken last
  std::vector<std::thread> threads_;
  std::unique_ptr<KvRowServer> server_;
};

}  // namespace pagoda
