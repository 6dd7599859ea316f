#include "cli/commands/output_collector.h"

#include <utility>

namespace pagoda {

class OutputCollector::Sink final : public OutputSink {
 public:
  explicit Sink(std::shared_ptr<Mailbox> mailbox) : mailbox_(std::move(mailbox)) {}
  void on_output(RequestOutput output) override {
    const TimeNs time = SteadyClock().now();
    std::lock_guard lock(mailbox_->mutex);
    mailbox_->items.push_back({std::move(output), time});
    mailbox_->ready.notify_one();
  }

 private:
  // Shared, because a caller that stops waiting after a failed request leaves the other requests in the
  // engine.
  const std::shared_ptr<Mailbox> mailbox_;
};

std::shared_ptr<OutputSink> OutputCollector::make_sink() { return std::make_shared<Sink>(mailbox_); }

std::vector<OutputCollector::Item> OutputCollector::take() {
  std::unique_lock lock(mailbox_->mutex);
  mailbox_->ready.wait(lock, [this] { return !mailbox_->items.empty(); });
  return std::exchange(mailbox_->items, {});
}

}  // namespace pagoda
