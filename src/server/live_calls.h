#pragma once
// LiveCalls: maps the ids that clients know to the engine requests of the calls being answered.
// For /debug only.
// Threads: any.
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace pagoda {

class LiveCalls {
 public:
  // Keeps a call listed for its lifetime. Clients may choose ids; equal ids are distinguished by the first
  // request.
  class Entry {
   public:
    Entry(LiveCalls& calls, std::string name, std::uint64_t first_id, std::size_t count)
        : calls_(calls), first_id_(first_id) {
      std::lock_guard lock(calls_.mutex_);
      calls_.by_first_id_.emplace(first_id, Call{std::move(name), count});
    }
    ~Entry() {
      std::lock_guard lock(calls_.mutex_);
      calls_.by_first_id_.erase(first_id_);
    }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    LiveCalls& calls_;
    const std::uint64_t first_id_;
  };

  // The call that an engine request belongs to; empty if the call has ended.
  std::string name_of(std::uint64_t id) const {
    std::lock_guard lock(mutex_);
    auto it = by_first_id_.upper_bound(id);
    if (it == by_first_id_.begin()) return {};
    --it;
    return id - it->first < it->second.count ? it->second.name : std::string();
  }

 private:
  struct Call {
    std::string name;
    std::size_t count;
  };
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Call> by_first_id_;
};

}  // namespace pagoda
