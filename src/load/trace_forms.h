#pragma once
// The readers behind load/trace_reader.h, one .cc a form, and what they share: checked fields.
// Not for callers: they use read_trace().
#include <boost/json/fwd.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "load/text_source.h"
#include "load/trace_reader.h"

namespace pagoda {

// A line or a conversation may be so long; the longest published ones have a tenth of it.
inline constexpr std::size_t kMaxRecordBytes = std::size_t{16} << 20;
inline constexpr double kMaxArrivalSeconds = 1e9;

std::unique_ptr<Workload> make_jsonl_trace(TextSource source, const TraceOptions& options, TraceForm form);
std::unique_ptr<Workload> make_azure_trace(TextSource source);
std::unique_ptr<Workload> make_sharegpt_trace(TextSource source, const TraceOptions& options);

// One JSON object, of bounded depth. The message has no place in it: the caller knows the line.
Result<boost::json::object> parse_record(std::string_view text);
// The fields of one; errors begin with the field's name. Absent and null are the same.
Result<std::optional<std::int64_t>> whole_field(const boost::json::object& record, std::string_view name,
                                                std::int64_t low, std::int64_t high);
Result<std::optional<double>> number_field(const boost::json::object& record, std::string_view name,
                                           double low, double high);
Result<std::optional<std::string>> text_field(const boost::json::object& record, std::string_view name);
// whole_field() that must be there, as a count of tokens.
Result<std::int32_t> token_field(const boost::json::object& record, std::string_view name);

// Checks that arrivals never fall, and that either all requests have one or none has.
class ArrivalCheck {
 public:
  // Returns what is wrong with the next request's arrival (NaN: it has none); empty: nothing.
  std::string next(double arrival_s);

 private:
  double last_ = 0;
  std::optional<bool> timed_;
};

}  // namespace pagoda
