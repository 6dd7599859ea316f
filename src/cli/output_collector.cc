#include "cli/output_collector.h"

#include <utility>

namespace pagoda {

class OutputCollector::Sink final : public OutputSink {
 public:
  explicit Sink(OutputCollector& collector) : collector_(collector) {}
  void on_output(RequestOutput output) override {
    const TimeNs time = SteadyClock().now();
    std::lock_guard lock(collector_.mutex_);
    collector_.items_.push_back({std::move(output), time});
    collector_.ready_.notify_one();  // under the lock: who waits may destroy the collector right after
  }

 private:
  OutputCollector& collector_;
};

std::shared_ptr<OutputSink> OutputCollector::make_sink() { return std::make_shared<Sink>(*this); }

std::vector<OutputCollector::Item> OutputCollector::take() {
  std::unique_lock lock(mutex_);
  ready_.wait(lock, [this] { return !items_.empty(); });
  return std::exchange(items_, {});
}

}  // namespace pagoda
