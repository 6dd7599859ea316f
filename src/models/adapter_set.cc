#include "models/adapter_set.h"

#include <algorithm>
#include <atomic>

#include "base/strings.h"
#include "loader/printable.h"

namespace pagoda {

struct AdapterSet::Loaded final : RequestAdapter {
  AdapterFactors factors;
};

void AdapterSet::set_targets(AdapterTargets targets) {
  const std::lock_guard lock(mutex_);
  if (ready_) return;
  targets_ = std::move(targets);
  ready_ = true;
}

Result<AdapterSet::Handle> AdapterSet::add(std::string, Adapter, IfLoaded) {
  return unimplemented("adapters that requests choose are not supported yet");
}

bool AdapterSet::remove(std::string_view name) {
  const std::lock_guard lock(mutex_);
  return std::erase_if(loaded_, [&](const auto& each) { return each->name == name; }) > 0;
}

AdapterSet::Handle AdapterSet::find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(loaded_, [&](const auto& each) { return each->name == name; });
  return found == loaded_.end() ? nullptr : *found;
}

std::vector<AdapterSet::Handle> AdapterSet::list() const {
  const std::lock_guard lock(mutex_);
  return {loaded_.begin(), loaded_.end()};
}

std::shared_ptr<const AdapterFactors> AdapterSet::find(AdapterId id) const {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  const std::shared_ptr<const Loaded> held = found == by_id_.end() ? nullptr : found->second.lock();
  return held == nullptr ? nullptr : std::shared_ptr<const AdapterFactors>(held, &held->factors);
}

}  // namespace pagoda
