#include "tracing/otlp_exporter.h"

#include <algorithm>
#include <chrono>
#include <random>

#include "base/log.h"
#include "base/strings.h"
#include "hub/http_call.h"
#include "tracing/trace_parent.h"

namespace pagoda {
namespace {

constexpr std::size_t kMaxQueued = 2048, kMaxAtOnce = 512;
constexpr std::chrono::seconds kInterval{1}, kBetweenWarnings{60};
constexpr int kTimeoutSeconds = 5;

// Ids must differ from those of all other processes, so they are random; nothing depends on their values.
std::string random_hex(std::size_t digits) {
  thread_local std::mt19937_64 random{std::random_device{}()};
  constexpr char kHex[] = "0123456789abcdef";
  std::string out(digits, '0');
  do {
    for (char& c : out) c = kHex[random() & 15];
  } while (out.find_first_not_of('0') == std::string::npos);
  return out;
}

TimeNs unix_offset(const Clock& clock) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count() - clock.now();
}

}  // namespace

Result<std::unique_ptr<OtlpExporter>> OtlpExporter::create(const std::string& endpoint, const Clock& clock,
                                                           std::string_view version,
                                                           MetricsRegistry& metrics) {
  std::optional<Url> url = parse_url(endpoint);
  if (!url)
    return invalid_argument(concat("'", endpoint, "' is not a URL such as http://HOST:4318/v1/traces"));
  if (url->target == "/") url->target = "/v1/traces";
  std::unique_ptr<OtlpExporter> out(new OtlpExporter(*std::move(url), clock, std::string(version), metrics));
  out->thread_ = std::thread([exporter = out.get()] { exporter->run(); });
  return out;
}

OtlpExporter::OtlpExporter(Url url, const Clock& clock, std::string version, MetricsRegistry& metrics)
    : url_(std::move(url)),
      unix_offset_(unix_offset(clock)),
      version_(std::move(version)),
      sent_(metrics.counter("pagoda:trace_spans_sent", "Spans that a collector has taken.")),
      dropped_(metrics.counter("pagoda:trace_spans_dropped",
                               "Spans that were lost: the queue was full, or no collector took them.")) {}

OtlpExporter::~OtlpExporter() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void OtlpExporter::on_span(RequestSpan span) {
  TracedSpan traced{.span = std::move(span), .trace_id = {}, .span_id = random_hex(16), .parent_id = {}};
  if (auto parent = parse_trace_parent(traced.span.traceparent)) {
    if (!parent->sampled) return;
    traced.trace_id = std::move(parent->trace_id);
    traced.parent_id = std::move(parent->span_id);
  } else {
    traced.trace_id = random_hex(32);
  }
  std::lock_guard lock(mutex_);
  if (queue_.size() >= kMaxQueued) return dropped_.add(1);
  queue_.push_back(std::move(traced));
  if (queue_.size() >= kMaxAtOnce) changed_.notify_all();
}

void OtlpExporter::run() {
  std::optional<std::chrono::steady_clock::time_point> warned;
  for (bool more = true; more;) {
    std::vector<TracedSpan> spans;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kInterval, [this] { return ending_ || queue_.size() >= kMaxAtOnce; });
      const auto count = std::min(queue_.size(), kMaxAtOnce);
      spans.assign(std::make_move_iterator(queue_.begin()),
                   std::make_move_iterator(queue_.begin() + static_cast<std::ptrdiff_t>(count)));
      queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(count));
      more = !ending_ || !queue_.empty();
    }
    if (spans.empty()) continue;
    const Status status = post(otlp_json(spans, unix_offset_, version_));
    (status.ok() ? sent_ : dropped_).add(static_cast<double>(spans.size()));
    if (status.ok()) continue;
    std::unique_lock lock(mutex_);
    if (ending_) {  // the collector is unreachable: drop the rest
      dropped_.add(static_cast<double>(queue_.size()));
      return;
    }
    lock.unlock();
    const auto now = std::chrono::steady_clock::now();
    if (warned && now - *warned < kBetweenWarnings) continue;
    warned = now;
    log_warning("traces", concat("cannot send spans, which are dropped: ", status.message()));
  }
}

Status OtlpExporter::post(std::string body) const {
  const BodyTaker nothing = {.begin = [](const HttpHead&) { return ok_status(); },
                             .piece = [](std::string_view) { return ok_status(); }};
  const auto head = http_call({.url = url_, .json = std::move(body), .timeout_s = kTimeoutSeconds}, nothing);
  if (!head) return head.error();
  if (head->status / 100 == 2) return ok_status();
  return unavailable(concat(url_.authority(), " answered ", head->status));
}

}  // namespace pagoda
