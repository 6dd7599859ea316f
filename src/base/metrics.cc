#include "base/metrics.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace pagoda {
namespace {

enum Kind { kCounter, kGauge, kHistogram };

void append_number(std::string& out, double value) {
  if (std::isnan(value)) {
    out += "NaN";
  } else if (std::isinf(value)) {
    out += value > 0 ? "+Inf" : "-Inf";
  } else {
    char buffer[40];
    const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value);
    CHECK(error == std::errc());
    out.append(buffer, end);
  }
}

void append_help(std::string& out, std::string_view help) {
  for (const char c : help) {
    if (c == '\\')
      out += "\\\\";
    else if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
}

std::string join(std::string_view a, std::string_view b) {
  std::string out(a);
  if (!a.empty() && !b.empty()) out += ',';
  return out += b;
}

// "pagoda" and "pagoda:" both give "pagoda:name".
std::string join_prefix(std::string_view prefix, std::string_view name) {
  std::string out(prefix);
  if (!prefix.empty() && !prefix.ends_with(':')) out += ':';
  return out += name;
}

void append_sample(std::string& out, std::string_view name, std::string_view labels, double value) {
  out += name;
  if (!labels.empty()) (((out += '{') += labels) += '}');
  out += ' ';
  append_number(out, value);
  out += '\n';
}

}  // namespace

Histogram::Histogram(std::vector<double> upper_bounds) : upper_bounds_(std::move(upper_bounds)) {
  CHECK(std::is_sorted(upper_bounds_.begin(), upper_bounds_.end()));
  for (std::size_t i = 0; i <= upper_bounds_.size(); ++i) buckets_.emplace_back(0);
}

void Histogram::observe(double value, std::int64_t times) {
  const auto at = std::lower_bound(upper_bounds_.begin(), upper_bounds_.end(), value) - upper_bounds_.begin();
  buckets_[static_cast<std::size_t>(at)].fetch_add(times, std::memory_order_relaxed);
  sum_.fetch_add(value * static_cast<double>(times), std::memory_order_relaxed);
}

std::int64_t Histogram::count() const {
  std::int64_t total = 0;
  for (const auto& bucket : buckets_) total += bucket.load(std::memory_order_relaxed);
  return total;
}

double Histogram::sum() const { return sum_.load(std::memory_order_relaxed); }

std::int64_t Histogram::bucket(std::size_t index) const {
  return buckets_[index].load(std::memory_order_relaxed);
}

struct MetricsRegistry::Entry {
  std::string labels;
  std::unique_ptr<Counter> counter;
  std::unique_ptr<Gauge> gauge;
  std::unique_ptr<Histogram> histogram;
  std::unique_ptr<InfoGauge> info;
};

struct MetricsRegistry::Family {
  int kind;
  std::string name, help;
  std::deque<Entry> entries;
};

MetricsRegistry::Entry& MetricsRegistry::find_or_add(int kind, std::string_view name, std::string_view help,
                                                     std::string_view labels) {
  const auto family_at =
      std::find_if(families_.begin(), families_.end(), [&](const auto& f) { return f->name == name; });
  Family* family = family_at == families_.end() ? nullptr : family_at->get();
  if (family == nullptr) {
    families_.push_back(std::make_shared<Family>());
    family = families_.back().get();
    family->kind = kind;
    family->name = name;
    family->help = help;
  }
  CHECK(family->kind == kind);
  for (Entry& entry : family->entries) {
    if (entry.labels == labels) return entry;
  }
  family->entries.emplace_back();
  family->entries.back().labels = labels;
  return family->entries.back();
}

Counter& MetricsRegistry::counter(std::string_view name, std::string_view help, std::string_view labels) {
  if (whole_ != nullptr) return whole_->counter(name, help, join(labels_, labels));
  std::lock_guard lock(mutex_);
  Entry& entry = find_or_add(kCounter, name, help, labels);
  if (!entry.counter) entry.counter = std::make_unique<Counter>();
  return *entry.counter;
}

Gauge& MetricsRegistry::gauge(std::string_view name, std::string_view help, std::string_view labels) {
  if (whole_ != nullptr) return whole_->gauge(name, help, join(labels_, labels));
  std::lock_guard lock(mutex_);
  Entry& entry = find_or_add(kGauge, name, help, labels);
  if (!entry.gauge) entry.gauge = std::make_unique<Gauge>();
  return *entry.gauge;
}

InfoGauge& MetricsRegistry::info_gauge(std::string_view name, std::string_view help,
                                       std::string_view labels) {
  if (whole_ != nullptr) return whole_->info_gauge(name, help, join(labels_, labels));
  std::lock_guard lock(mutex_);
  Entry& entry = find_or_add(kGauge, name, help, labels);
  if (!entry.info) entry.info = std::make_unique<InfoGauge>();
  return *entry.info;
}

Histogram& MetricsRegistry::histogram(std::string_view name, std::string_view help,
                                      std::vector<double> upper_bounds, std::string_view labels) {
  if (whole_ != nullptr) return whole_->histogram(name, help, std::move(upper_bounds), join(labels_, labels));
  std::lock_guard lock(mutex_);
  Entry& entry = find_or_add(kHistogram, name, help, labels);
  if (!entry.histogram) entry.histogram = std::make_unique<Histogram>(std::move(upper_bounds));
  return *entry.histogram;
}

MetricsRegistry& MetricsRegistry::labelled(std::string labels) {
  std::lock_guard lock(mutex_);
  MetricsRegistry& part = parts_.emplace_back();
  part.whole_ = this;
  part.labels_ = std::move(labels);
  return part;
}

std::string MetricsRegistry::expose(std::string_view prefix, std::string_view common_labels) const {
  std::lock_guard lock(mutex_);
  std::string out;
  for (const auto& family : families_) {
    const bool bare = family->name.starts_with("process_") || family->name.starts_with("http_") ||
                      family->name.find(':') != std::string::npos;
    std::string name = bare ? family->name : join_prefix(prefix, family->name);
    if (family->kind == kCounter && !name.ends_with("_total")) name += "_total";
    out += "# HELP " + name + ' ';
    append_help(out, family->help);
    out += "\n# TYPE " + name +
           (family->kind == kCounter ? " counter\n"
            : family->kind == kGauge ? " gauge\n"
                                     : " histogram\n");
    for (const Entry& entry : family->entries) {
      const std::string labels = join(common_labels, entry.labels);
      if (entry.counter) append_sample(out, name, labels, entry.counter->value());
      if (entry.gauge) append_sample(out, name, labels, entry.gauge->value());
      if (entry.info) {
        const auto [own, value] = entry.info->sample();
        append_sample(out, name, join(labels, own), value);
      }
      if (!entry.histogram) continue;
      const Histogram& histogram = *entry.histogram;
      std::int64_t cumulative = 0;
      for (std::size_t i = 0; i <= histogram.upper_bounds().size(); ++i) {
        cumulative += histogram.bucket(i);
        std::string bound = "le=\"";
        append_number(bound, i < histogram.upper_bounds().size() ? histogram.upper_bounds()[i]
                                                                 : std::numeric_limits<double>::infinity());
        bound += '"';
        append_sample(out, name + "_bucket", join(labels, bound), static_cast<double>(cumulative));
      }
      append_sample(out, name + "_sum", labels, histogram.sum());
      // Consistent with the buckets.
      append_sample(out, name + "_count", labels, static_cast<double>(cumulative));
    }
  }
  return out;
}

}  // namespace pagoda
