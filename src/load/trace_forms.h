#pragma once
// The readers behind load/trace_reader.h, one .cc file per form, and their common checked fields.
// Internal: callers use read_trace().
#include <boost/json/fwd.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "load/text_source.h"
#include "load/trace_reader.h"

namespace pagoda {

// Limit on a line or a conversation; the longest published ones have a tenth of it.
inline constexpr std::size_t kMaxRecordBytes = std::size_t{16} << 20;
inline constexpr double kMaxArrivalSeconds = 1e9;

std::unique_ptr<Workload> make_jsonl_trace(TextSource source, const TraceOptions& options, TraceForm form);
std::unique_ptr<Workload> make_azure_trace(TextSource source);
std::unique_ptr<Workload> make_sharegpt_trace(TextSource source, const TraceOptions& options);

// Parses a JSON object of bounded depth. The error does not name the line, which the caller knows.
Result<boost::json::object> parse_record(std::string_view text);
// Fields of a record. Error messages begin with the field's name. A null field counts as absent.
Result<std::optional<std::int64_t>> whole_field(const boost::json::object& record, std::string_view name,
                                                std::int64_t low, std::int64_t high);
Result<std::optional<double>> number_field(const boost::json::object& record, std::string_view name,
                                           double low, double high);
Result<std::optional<std::string>> text_field(const boost::json::object& record, std::string_view name);
// A required whole_field() with a number of tokens.
Result<std::int32_t> token_field(const boost::json::object& record, std::string_view name);

// Checks that arrivals never decrease, and that all requests have an arrival time or none has.
class ArrivalCheck {
 public:
  // Returns the error of the next request's arrival (NaN: no time); empty if it is valid.
  std::string next(double arrival_s);

 private:
  double last_ = 0;
  std::optional<bool> timed_;
};

}  // namespace pagoda
