// Azure's CSV form: TIMESTAMP,ContextTokens,GeneratedTokens, one request per line, with wall-clock times.
#include <charconv>
#include <chrono>
#include <cmath>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "load/trace_forms.h"

namespace pagoda {
namespace {

constexpr std::size_t kMaxLineBytes = 1024;

bool digits(std::string_view& text, std::size_t count, int& value) {
  if (text.size() < count) return false;
  for (std::size_t i = 0; i < count; ++i)
    if (text[i] < '0' || text[i] > '9') return false;
  std::from_chars(text.data(), text.data() + count, value);
  text.remove_prefix(count);
  return true;
}

bool literal(std::string_view& text, char c) {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

// Parses "2023-11-16 18:15:46.6805900", optionally with 'T' and a trailing offset "+00:00" or 'Z'. Returns
// seconds since 1970.
std::optional<double> parse_time(std::string_view text) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
  if (!digits(text, 4, year) || !literal(text, '-') || !digits(text, 2, month) || !literal(text, '-') ||
      !digits(text, 2, day) || !(literal(text, ' ') || literal(text, 'T')) || !digits(text, 2, hour) ||
      !literal(text, ':') || !digits(text, 2, minute) || !literal(text, ':') || !digits(text, 2, second))
    return {};
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(unsigned(month)),
                                         std::chrono::day(unsigned(day))};
  if (!date.ok() || hour > 23 || minute > 59 || second > 60) return {};
  double fraction = 0;
  if (literal(text, '.')) {
    double scale = 0.1;
    if (text.empty() || text.front() < '0' || text.front() > '9') return {};
    for (; !text.empty() && text.front() >= '0' && text.front() <= '9'; text.remove_prefix(1), scale *= 0.1)
      fraction += (text.front() - '0') * scale;
  }
  int offset_minutes = 0;
  if (!literal(text, 'Z') && !text.empty()) {
    const bool negative = text.front() == '-';
    int hours = 0, minutes = 0;
    if (!(literal(text, '+') || literal(text, '-')) || !digits(text, 2, hours) || !literal(text, ':') ||
        !digits(text, 2, minutes))
      return {};
    offset_minutes = (negative ? -1 : 1) * (hours * 60 + minutes);
  }
  if (!text.empty()) return {};
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  const std::int64_t whole = ((days * 24 + hour) * 60 + minute - offset_minutes) * 60 + second;
  return static_cast<double>(whole) + fraction;
}

Result<std::int32_t> tokens(std::string_view text, std::string_view name) {
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > kMaxTraceTokens)
    return corrupt_data(concat(name, ": must be a whole number from 1 to ", kMaxTraceTokens));
  return value;
}

class AzureTrace final : public Workload {
 public:
  explicit AzureTrace(TextSource source) : source_(std::move(source)) {}

  Result<std::optional<WorkloadRequest>> next() override {
    if (!header_read_) {
      header_read_ = true;
      PAGODA_ASSIGN_OR_RETURN(const auto more, source_.next_line(line_, kMaxLineBytes));
      if (more && line_ != "TIMESTAMP,ContextTokens,GeneratedTokens")
        return source_.error("the first line must be TIMESTAMP,ContextTokens,GeneratedTokens");
    }
    PAGODA_ASSIGN_OR_RETURN(const auto more, source_.next_line(line_, kMaxLineBytes));
    if (!more) return std::optional<WorkloadRequest>();
    auto request = read(line_);
    if (!request) return source_.error(request.error().message());
    return std::optional(std::move(*request));
  }

 private:
  Result<WorkloadRequest> read(std::string_view line) {
    const std::size_t first = line.find(',');
    const std::size_t second = first == std::string_view::npos ? first : line.find(',', first + 1);
    if (second == std::string_view::npos || line.find(',', second + 1) != std::string_view::npos)
      return corrupt_data("must have three fields: TIMESTAMP,ContextTokens,GeneratedTokens");
    const std::optional<double> time = parse_time(line.substr(0, first));
    if (!time) return corrupt_data("TIMESTAMP: must look like 2023-11-16 18:15:46.6805900");
    PAGODA_ASSIGN_OR_RETURN(const auto prompt,
                            tokens(line.substr(first + 1, second - first - 1), "ContextTokens"));
    PAGODA_ASSIGN_OR_RETURN(const auto output, tokens(line.substr(second + 1), "GeneratedTokens"));
    if (!start_) start_ = *time;
    WorkloadRequest request;
    request.arrival_s = *time - *start_;
    request.prompt_tokens = prompt;
    request.output_tokens = output;
    if (request.arrival_s < 0 || request.arrival_s > kMaxArrivalSeconds)
      return corrupt_data("TIMESTAMP: earlier than the first request, or over 30 years after it");
    if (const std::string wrong = arrivals_.next(request.arrival_s); !wrong.empty())
      return corrupt_data(concat("TIMESTAMP: ", wrong));
    return request;
  }

  TextSource source_;
  std::string line_;
  bool header_read_ = false;
  std::optional<double> start_;
  ArrivalCheck arrivals_;
};

}  // namespace

std::unique_ptr<Workload> make_azure_trace(TextSource source) {
  return std::make_unique<AzureTrace>(std::move(source));
}

}  // namespace pagoda
