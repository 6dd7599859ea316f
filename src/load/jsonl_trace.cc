// The forms with one JSON object per line: our own, vLLM's "custom" and Mooncake's.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <limits>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "load/trace_forms.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr std::int32_t kTraceTokensPerHash = 512;

Result<std::vector<std::uint64_t>> hash_ids(const json::object& record, std::string_view name,
                                            std::int32_t prompt_tokens) {
  std::vector<std::uint64_t> ids;
  const json::value* const value = record.if_contains(name);
  if (value == nullptr || value->is_null()) return ids;
  if (!value->is_array()) return corrupt_data(concat(name, ": must be an array of whole numbers"));
  const json::array& array = value->get_array();
  const std::size_t most =
      static_cast<std::size_t>((prompt_tokens + kTraceTokensPerHash - 1) / kTraceTokensPerHash);
  if (array.size() > most)
    return corrupt_data(concat(name, ": ", array.size(), " ids, but the prompt has ", most, " blocks of ",
                               kTraceTokensPerHash, " tokens"));
  ids.reserve(array.size());
  for (const json::value& id : array) {
    json::error_code error;
    const auto number = id.is_number() && !id.is_double() ? id.to_number<std::uint64_t>(error) : 0;
    if (error || id.is_double() || !id.is_number())
      return corrupt_data(concat(name, ".", ids.size(), ": must be a whole number, not negative"));
    ids.push_back(number);
  }
  return ids;
}

class JsonlTrace final : public Workload {
 public:
  JsonlTrace(TextSource source, const TraceOptions& options, TraceForm form)
      : source_(std::move(source)), options_(options), form_(form) {}

  Result<std::optional<WorkloadRequest>> next() override {
    PAGODA_ASSIGN_OR_RETURN(const auto more, source_.next_line(line_, kMaxRecordBytes));
    if (!more) return std::optional<WorkloadRequest>();
    const auto record = parse_record(line_);
    if (!record) return source_.error(record.error().message());
    auto request = form_ == TraceForm::mooncake ? read_mooncake(*record)
                   : form_ == TraceForm::custom ? read_custom(*record)
                                                : read_own(*record);
    if (!request) return source_.error(request.error().message());
    if (const std::string wrong = arrivals_.next(request->arrival_s); !wrong.empty())
      return source_.error(concat(form_ == TraceForm::mooncake ? "timestamp: " : "arrival_s: ", wrong));
    return std::optional(std::move(*request));
  }

 private:
  Result<WorkloadRequest> read_own(const json::object& record) {
    WorkloadRequest request;
    PAGODA_ASSIGN_OR_RETURN(const auto prompt, token_field(record, "prompt_tokens"));
    PAGODA_ASSIGN_OR_RETURN(const auto output, token_field(record, "output_tokens"));
    PAGODA_ASSIGN_OR_RETURN(const auto arrival, number_field(record, "arrival_s", 0, kMaxArrivalSeconds));
    PAGODA_ASSIGN_OR_RETURN(auto text, text_field(record, "prompt"));
    PAGODA_ASSIGN_OR_RETURN(auto ids, hash_ids(record, "prefix_hash_ids", prompt));
    request.prompt_tokens = prompt;
    request.output_tokens = output;
    request.arrival_s = arrival.value_or(std::numeric_limits<double>::quiet_NaN());
    // If the text is known, sharing follows from the text, and the ids are only labels (WMT's k-shot files
    // give one id to a 25-token prefix).
    if (text)
      request.prompt = std::move(*text);
    else
      request.prefix_hash_ids = std::move(ids);
    return request;
  }

  Result<WorkloadRequest> read_custom(const json::object& record) {
    WorkloadRequest request;
    PAGODA_ASSIGN_OR_RETURN(auto text, text_field(record, "prompt"));
    if (!text || text->empty()) return corrupt_data("prompt: missing or empty");
    PAGODA_ASSIGN_OR_RETURN(const auto output, whole_field(record, "output_tokens", 1, kMaxTraceTokens));
    if (!output && options_.default_output_tokens < 1) return corrupt_data("output_tokens: missing");
    const std::int64_t length = options_.count_tokens(*text);
    if (length < 1 || length > kMaxTraceTokens)
      return corrupt_data(concat("prompt: has ", length, " tokens, must have 1 to ", kMaxTraceTokens));
    request.prompt_tokens = static_cast<std::int32_t>(length);
    request.output_tokens = static_cast<std::int32_t>(output.value_or(options_.default_output_tokens));
    request.arrival_s = std::numeric_limits<double>::quiet_NaN();
    request.prompt = std::move(*text);
    return request;
  }

  Result<WorkloadRequest> read_mooncake(const json::object& record) {
    WorkloadRequest request;
    PAGODA_ASSIGN_OR_RETURN(const auto time_ms,
                            number_field(record, "timestamp", 0, kMaxArrivalSeconds * 1e3));
    if (!time_ms) return corrupt_data("timestamp: missing");
    PAGODA_ASSIGN_OR_RETURN(const auto prompt, token_field(record, "input_length"));
    PAGODA_ASSIGN_OR_RETURN(const auto output, token_field(record, "output_length"));
    PAGODA_ASSIGN_OR_RETURN(auto ids, hash_ids(record, "hash_ids", prompt));
    request.arrival_s = *time_ms * 1e-3;
    request.prompt_tokens = prompt;
    request.output_tokens = output;
    request.prefix_hash_ids = std::move(ids);
    return request;
  }

  TextSource source_;
  TraceOptions options_;
  TraceForm form_;
  std::string line_;
  ArrivalCheck arrivals_;
};

}  // namespace

std::unique_ptr<Workload> make_jsonl_trace(TextSource source, const TraceOptions& options, TraceForm form) {
  return std::make_unique<JsonlTrace>(std::move(source), options, form);
}

}  // namespace pagoda
