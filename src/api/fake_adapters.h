#pragma once
// For tests only: a catalog of adapters without weights. Loading the path "missing" fails with not_found, and
// "broken" with corrupt_data; loads of a name that begins with "slow" block until release(). Threads: any.
#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "base/strings.h"
#include "request/request_adapter.h"

namespace pagoda {

class FakeAdapters final : public AdapterCatalog {
 public:
  // `keeps`: unload() reports success but keeps the adapter.
  explicit FakeAdapters(bool keeps = false) : keeps_(keeps) {}

  Handle find(std::string_view name) const override {
    std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(all_, name, [](const Handle& each) { return each->name; });
    return found == all_.end() ? nullptr : *found;
  }
  std::vector<Handle> list() const override {
    std::lock_guard lock(mutex_);
    return all_;
  }
  Result<Handle> load(const std::string& name, const std::string& path, bool replace) override {
    std::unique_lock lock(mutex_);
    if (name.starts_with("slow")) released_.wait(lock, [this] { return is_released_; });
    if (path == "missing") return not_found("there is no such file");
    if (path == "broken") return corrupt_data("a tensor is cut off");
    const auto found = std::ranges::find(all_, name, [](const Handle& each) { return each->name; });
    if (found != all_.end() && !replace) return already_exists("there is one").with_param("lora_name");
    auto made = std::make_shared<RequestAdapter>();
    made->id = AdapterId{++num_loaded_};
    made->name = name;
    made->path = path;
    made->identity = concat("content of ", path);
    if (found != all_.end()) return *found = made;
    return all_.emplace_back(std::move(made));
  }
  Status unload(std::string_view name) override {
    std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(all_, name, [](const Handle& each) { return each->name; });
    if (found == all_.end()) return not_found("there is none");
    if (!keeps_) all_.erase(found);
    return ok_status();
  }

  void release() {
    std::lock_guard lock(mutex_);
    is_released_ = true;
    released_.notify_all();
  }

 private:
  const bool keeps_;
  mutable std::mutex mutex_;
  std::condition_variable released_;
  bool is_released_ = false;
  std::int32_t num_loaded_ = 0;
  std::vector<Handle> all_;
};

}  // namespace pagoda
