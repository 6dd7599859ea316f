#pragma once
// AdapterMetrics: vLLM's `lora_requests_info`: the adapters of waiting and of running requests, as labels of
// one sample whose value is the time of the latest change. Routers use it to send a request to a server that
// already has its adapter. Only with --enable-lora. Threads: the engine thread's; exposed by any.
#include <cstdint>
#include <map>
#include <string>

#include "base/metrics.h"
#include "engine/step_observer.h"

namespace pagoda {

class AdapterMetrics final : public StepObserver {
 public:
  // max_loras: the limit on distinct adapters, reported as a label.
  AdapterMetrics(MetricsRegistry& registry, std::int32_t max_loras);

  void on_submit(const Request& request) override;
  void on_step(const StepReport& report) override;
  void on_ended(const EndedRequest& ended) override;

 private:
  struct Held {
    std::string adapter;
    bool running = false;
  };
  void set_running(const SequenceGroup& group, bool running);
  void update();

  const std::int32_t max_loras_;
  InfoGauge& info_;
  std::map<RequestId, Held> requests_;  // requests that use an adapter
  std::string reported_;                // labels last reported
};

}  // namespace pagoda
