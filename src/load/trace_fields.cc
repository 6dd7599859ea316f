// Checked fields of one trace record.
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <limits>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "load/trace_forms.h"

namespace pagoda {
namespace {

namespace json = boost::json;

const json::value* present(const json::object& record, std::string_view name) {
  const json::value* const value = record.if_contains(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

}  // namespace

Result<json::object> parse_record(std::string_view text) {
  json::parse_options options;
  options.max_depth = 8;
  json::error_code error;
  json::value value = json::parse(text, error, {}, options);
  if (error) return corrupt_data(concat("not JSON: ", error.message()));
  if (!value.is_object()) return corrupt_data("not a JSON object");
  return std::move(value.get_object());
}

Result<std::optional<std::int64_t>> whole_field(const json::object& record, std::string_view name,
                                                std::int64_t low, std::int64_t high) {
  const json::value* const value = present(record, name);
  if (value == nullptr) return std::optional<std::int64_t>();
  const std::int64_t* const number = value->if_int64();
  if (number == nullptr || *number < low || *number > high)
    return corrupt_data(concat(name, ": must be a whole number from ", low, " to ", high));
  return std::optional(*number);
}

Result<std::optional<double>> number_field(const json::object& record, std::string_view name, double low,
                                           double high) {
  const json::value* const value = present(record, name);
  if (value == nullptr) return std::optional<double>();
  json::error_code error;
  const double number =
      value->is_number() ? value->to_number<double>(error) : std::numeric_limits<double>::quiet_NaN();
  if (error || !(number >= low && number <= high))
    return corrupt_data(concat(name, ": must be a number from ", low, " to ", high));
  return std::optional(number);
}

Result<std::optional<std::string>> text_field(const json::object& record, std::string_view name) {
  const json::value* const value = present(record, name);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string()) return corrupt_data(concat(name, ": must be a string"));
  const json::string& text = value->get_string();
  return std::optional<std::string>(std::in_place, text.data(), text.size());
}

Result<std::int32_t> token_field(const json::object& record, std::string_view name) {
  PAGODA_ASSIGN_OR_RETURN(auto value, whole_field(record, name, 1, kMaxTraceTokens));
  if (!value) return corrupt_data(concat(name, ": missing"));
  return static_cast<std::int32_t>(*value);
}

std::string ArrivalCheck::next(double arrival_s) {
  const bool timed = !std::isnan(arrival_s);
  if (timed_ && *timed_ != timed) return "some requests have an arrival time and some have none";
  timed_ = timed;
  if (!timed) return {};
  if (arrival_s < last_) return concat("earlier (", arrival_s, " s) than the request before (", last_, " s)");
  last_ = arrival_s;
  return {};
}

}  // namespace pagoda
