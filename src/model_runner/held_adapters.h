#pragma once
// HeldAdapters: keeps the adapters of a step's rows alive while the step is computed. Requests hold their
// adapters until they end, but a step does not rely on that.
// Threads: the runner's.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "models/weights/adapter_set.h"

namespace pagoda {

class HeldAdapters {
 public:
  // `ids`: the AdapterId of each row, all in `set`; empty if no row has an adapter.
  void hold(const AdapterSet* set, std::span<const std::int32_t> ids) {
    clear();
    auto last = static_cast<std::int32_t>(kNoAdapter);
    const AdapterFactors* factors = nullptr;
    for (const std::int32_t id : ids) {
      if (id != last) {
        last = id;
        factors = nullptr;
        if (AdapterId{id} != kNoAdapter) factors = held_.emplace_back(set->find(AdapterId{id})).get();
      }
      of_rows_.push_back(factors);
    }
  }
  void clear() {
    held_.clear();
    of_rows_.clear();
  }
  std::span<const AdapterFactors* const> of_rows() const { return of_rows_; }
  // Every adapter of the step, at least once.
  std::span<const std::shared_ptr<const AdapterFactors>> held() const { return held_; }

 private:
  std::vector<std::shared_ptr<const AdapterFactors>> held_;
  std::vector<const AdapterFactors*> of_rows_;
};

}  // namespace pagoda
