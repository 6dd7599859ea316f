#pragma once
// ListWorkload: a workload from a list of requests in order of arrival.
#include <cstddef>
#include <utility>
#include <vector>

#include "load/workload.h"

namespace pagoda {

class ListWorkload final : public Workload {
 public:
  explicit ListWorkload(std::vector<WorkloadRequest> requests) : requests_(std::move(requests)) {}
  Result<std::optional<WorkloadRequest>> next() override {
    if (next_ == requests_.size()) return std::optional<WorkloadRequest>();
    return std::optional<WorkloadRequest>(requests_[next_++]);
  }

 private:
  std::vector<WorkloadRequest> requests_;
  std::size_t next_ = 0;
};

}  // namespace pagoda
