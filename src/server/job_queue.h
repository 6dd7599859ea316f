#pragma once
// JobQueue: orders waiting jobs fairly between owners (tenants), and finds those that have waited too long.
// It runs nothing and reads no clock.
//     push() -> waiting --take(): an owner's first job--> taken --charge()      remove(): gone; late(): due
//   * Self-clocked fair queueing: the tag of an owner's first job is its cost plus the larger of the owner's
//     last tag and the queue's time at arrival. That time is the highest tag taken; the smallest tag is next.
//     A job waits for its owner's earlier jobs, and for as much cost of each other owner plus one job.
//     charge() corrects a cost afterwards.
//   * take(Lane::small) skips large jobs of the same owner. An owner's jobs of one size class keep their
//     order.
// Source: Golestani, "A self-clocked fair queueing scheme", INFOCOM'94. Units: bytes of cost. Threads: none.
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/clock.h"

namespace pagoda {

class JobQueue {
 public:
  using JobId = std::uint64_t;
  enum class Lane : std::uint8_t { any, small };  // jobs that take() may return

  // Ids must ascend. `due`: the time after which the job is late; 0: never.
  void push(JobId id, std::string_view owner, double cost, bool small, TimeNs due = 0);
  struct Taken {
    JobId id;
    double tag;
  };
  std::optional<Taken> take(Lane lane);
  // True if take() would find a job.
  bool has(Lane lane) const { return !(lane == Lane::small ? small_heads_ : heads_).empty(); }
  // Returns false if the job is not waiting.
  bool remove(JobId id);
  // Corrects the cost of a taken job: it cost `more` than stated at push().
  void charge(std::string_view owner, double tag, double more);

  // Takes out a job that was due before `now`, if any.
  std::optional<JobId> late(TimeNs now);
  TimeNs next_due() const { return due_.empty() ? 0 : due_.begin()->first; }  // 0 if none

  std::size_t size() const { return jobs_.size(); }
  std::size_t num_waiting(std::string_view owner) const;
  std::size_t num_owners() const { return num_owners_; }  // owners with waiting jobs
  std::size_t num_known() const { return owners_.size(); }

 private:
  struct Waiting {
    double cost, arrived;  // arrived: the queue's time at push()
    bool small;
    TimeNs due;
  };
  struct Owner {
    std::map<JobId, Waiting> jobs;  // in order of arrival
    std::set<JobId> small_jobs;
    double last = 0;      // the highest tag of its taken jobs, plus charges
    double head_tag = 0;  // tag of the owner's first job
    JobId head = 0;       // that job; 0 if none waits
  };
  using Owners = std::map<std::string, Owner, std::less<>>;
  using Heads = std::set<std::pair<double, JobId>>;  // the first job of each owner

  double tag_of(const Owner& owner, const Waiting& job) const;
  void take_out(Owners::iterator owner, JobId id);
  void list(Owner& owner);
  void unlist(const Owner& owner);
  void forget_idle_owners();

  Owners owners_;
  std::unordered_map<JobId, Owners::iterator> jobs_;  // waiting jobs
  Heads heads_, small_heads_;                         // all owners; owners with a small job
  std::set<std::pair<TimeNs, JobId>> due_;
  double time_ = 0;
  std::size_t num_owners_ = 0;
};

}  // namespace pagoda
