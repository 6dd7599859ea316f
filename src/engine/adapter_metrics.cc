#include "engine/adapter_metrics.h"

#include <chrono>
#include <set>

#include "base/metric_label.h"
#include "base/strings.h"

namespace pagoda {

AdapterMetrics::AdapterMetrics(MetricsRegistry& registry, std::int32_t max_loras)
    : max_loras_(max_loras),
      info_(registry.info_gauge("lora_requests_info", "Running stats on LoRA requests.")) {
  update();
}

void AdapterMetrics::on_submit(const Request& request) {
  if (request.adapter == nullptr) return;
  requests_[request.id] = {.adapter = request.adapter->name};
  update();
}

void AdapterMetrics::set_running(const SequenceGroup& group, bool running) {
  const auto found = requests_.find(group.request.id);
  if (found != requests_.end()) found->second.running = running;
}

void AdapterMetrics::on_step(const StepReport& report) {
  if (requests_.empty()) return;
  for (const ScheduledRef& ref : report.refs) set_running(*ref.group, true);
  for (const SequenceGroup* const group : report.preempted) set_running(*group, false);
  update();
}

void AdapterMetrics::on_ended(const EndedRequest& ended) {
  if (requests_.erase(ended.request.id) > 0) update();
}

void AdapterMetrics::update() {
  std::set<std::string_view> running, waiting;
  for (const auto& [id, held] : requests_) (held.running ? running : waiting).insert(held.adapter);
  const auto joined = [](const std::set<std::string_view>& names) {
    std::string out;
    for (const std::string_view name : names) out += concat(out.empty() ? "" : ",", name);
    return label_value(out);
  };
  std::string labels = concat("max_lora=\"", max_loras_, "\",waiting_lora_adapters=\"", joined(waiting),
                              "\",running_lora_adapters=\"", joined(running), "\"");
  if (labels == reported_) return;
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  reported_ = labels;
  info_.set(std::move(labels), now.count());
}

}  // namespace pagoda
