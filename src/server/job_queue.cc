#include "server/job_queue.h"

#include <algorithm>

#include "base/check.h"

namespace pagoda {
namespace {
constexpr std::size_t kMaxIdleOwners = 4096;
}  // namespace

double JobQueue::tag_of(const Owner& owner, const Waiting& job) const {
  return std::max(owner.last, job.arrived) + job.cost;
}

// A head keeps its tag: jobs that the same owner gets on the other lane in the meantime only affect its later
// jobs.
void JobQueue::list(Owner& owner) {
  if (owner.jobs.empty()) {
    if (owner.head != 0) --num_owners_;
    owner.head = 0;
    return;
  }
  const auto& [id, job] = *owner.jobs.begin();
  if (owner.head == 0) ++num_owners_;
  if (owner.head != id) owner.head_tag = tag_of(owner, job);
  owner.head = id;
  heads_.emplace(owner.head_tag, id);
  if (!owner.small_jobs.empty()) small_heads_.emplace(owner.head_tag, id);
}

void JobQueue::unlist(const Owner& owner) {
  if (owner.head == 0) return;
  heads_.erase({owner.head_tag, owner.head});
  small_heads_.erase({owner.head_tag, owner.head});
}

void JobQueue::push(JobId id, std::string_view owner, double cost, bool small, TimeNs due) {
  auto place = owners_.find(owner);
  if (place == owners_.end()) {
    forget_idle_owners();
    place = owners_.emplace(std::string(owner), Owner()).first;
  }
  Owner& of = place->second;
  unlist(of);
  of.jobs.emplace(id, Waiting{.cost = cost, .arrived = time_, .small = small, .due = due});
  if (small) of.small_jobs.insert(id);
  if (due != 0) due_.emplace(due, id);
  CHECK(jobs_.emplace(id, place).second);
  list(of);
}

void JobQueue::take_out(Owners::iterator place, JobId id) {
  Owner& owner = place->second;
  const auto job = owner.jobs.find(id);
  unlist(owner);
  due_.erase({job->second.due, id});
  owner.small_jobs.erase(id);
  owner.jobs.erase(job);
  jobs_.erase(id);
  list(owner);
  if (owner.jobs.empty() && owner.last <= time_) owners_.erase(place);
}

std::optional<JobQueue::Taken> JobQueue::take(Lane lane) {
  const Heads& heads = lane == Lane::small ? small_heads_ : heads_;
  if (heads.empty()) return std::nullopt;
  const auto place = jobs_.at(heads.begin()->second);
  Owner& owner = place->second;
  const JobId id = lane == Lane::small ? *owner.small_jobs.begin() : owner.head;
  const double tag = id == owner.head ? owner.head_tag : tag_of(owner, owner.jobs.at(id));
  owner.last = std::max(owner.last, tag);
  time_ = std::max(time_, tag);
  take_out(place, id);
  return Taken{.id = id, .tag = tag};
}

bool JobQueue::remove(JobId id) {
  const auto job = jobs_.find(id);
  if (job == jobs_.end()) return false;
  take_out(job->second, id);
  return true;
}

void JobQueue::charge(std::string_view owner, double tag, double more) {
  if (const auto place = owners_.find(owner); place != owners_.end())
    place->second.last += more;
  else if (tag + more > time_)
    owners_.emplace(std::string(owner), Owner{.jobs = {}, .small_jobs = {}, .last = tag + more});
}

std::optional<JobQueue::JobId> JobQueue::late(TimeNs now) {
  if (due_.empty() || due_.begin()->first >= now) return std::nullopt;
  const JobId id = due_.begin()->second;
  CHECK(remove(id));
  return id;
}

std::size_t JobQueue::num_waiting(std::string_view owner) const {
  const auto place = owners_.find(owner);
  return place == owners_.end() ? 0 : place->second.jobs.size();
}

// Forgets idle owners that have not used more than their share; above a bound, all idle owners.
void JobQueue::forget_idle_owners() {
  if (owners_.size() < num_owners_ + kMaxIdleOwners) return;
  const auto idle = [](const auto& entry) { return entry.second.jobs.empty(); };
  std::erase_if(owners_, [&](const auto& entry) { return idle(entry) && entry.second.last <= time_; });
  if (owners_.size() >= num_owners_ + kMaxIdleOwners) std::erase_if(owners_, idle);
}

}  // namespace pagoda
