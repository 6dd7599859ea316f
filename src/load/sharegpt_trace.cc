// ShareGPT's own form: an array of conversations, or one conversation per line. The array is split into its
// elements byte by byte, so that a file of 600 MB is never in memory as a whole.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <deque>
#include <limits>

#include "base/ascii.h"
#include "base/assign_or_return.h"
#include "base/strings.h"
#include "load/trace_forms.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxTurns = 10'000;

bool from_user(std::string_view who) { return who == "human" || who == "user"; }

class ShareGptTrace final : public Workload {
 public:
  ShareGptTrace(TextSource source, const TraceOptions& options)
      : source_(std::move(source)), options_(options) {}

  Result<std::optional<WorkloadRequest>> next() override {
    while (ready_.empty()) {
      PAGODA_ASSIGN_OR_RETURN(const auto more, next_element());
      if (!more) return std::optional<WorkloadRequest>();
      if (const Status status = read_conversation(); !status.ok())
        return source_.error_at(element_line_, status.message());
      ++conversation_;
    }
    std::optional<WorkloadRequest> request(std::move(ready_.front()));
    ready_.pop_front();
    return request;
  }

 private:
  int next_not_blank() {
    int c = source_.get();
    while (c >= 0 && is_blank(static_cast<char>(c))) c = source_.get();
    return c;
  }

  // Reads the text of the next element into element_. Returns false at the end.
  Result<bool> next_element() {
    int c = next_not_blank();
    if (!started_) {
      started_ = true;
      in_array_ = c == '[';
      if (in_array_) c = next_not_blank();
      if (in_array_ && c == ']') return end_of_array();
    } else if (in_array_) {
      if (c == ']') return end_of_array();
      if (c != ',') return source_.error_at(source_.line(), "expected ',' or ']' after a conversation");
      c = next_not_blank();
    }
    if (c < 0 && !in_array_) return false;
    element_line_ = source_.line();
    if (c != '{') return source_.error_at(element_line_, "expected a conversation: an object");
    element_.assign(1, '{');
    bool in_string = false, escaped = false;
    for (int depth = 1; depth > 0;) {
      c = source_.get();
      if (c < 0) return source_.error_at(element_line_, "the file ends inside this conversation");
      if (element_.size() >= kMaxRecordBytes)
        return source_.error_at(element_line_, concat("longer than ", kMaxRecordBytes, " bytes"));
      element_.push_back(static_cast<char>(c));
      if (in_string) {
        if (escaped)
          escaped = false;
        else if (c == '\\')
          escaped = true;
        else if (c == '"')
          in_string = false;
      } else if (c == '"') {
        in_string = true;
      } else if (c == '{' || c == '[') {
        ++depth;
      } else if (c == '}' || c == ']') {
        --depth;
      }
    }
    return true;
  }

  Result<bool> end_of_array() {
    if (next_not_blank() >= 0) return source_.error_at(source_.line(), "text after the array's end");
    return false;
  }

  Result<std::int32_t> count(const std::string& text) const {
    const std::int64_t tokens = options_.count_tokens(text);
    if (tokens < 0 || tokens > kMaxTraceTokens)
      return corrupt_data(concat("value: ", tokens, " tokens, must be at most ", kMaxTraceTokens));
    return static_cast<std::int32_t>(tokens);
  }

  Status read_conversation() {
    PAGODA_ASSIGN_OR_RETURN(const auto record, parse_record(element_));
    const json::value* turns = record.if_contains("conversations");
    if (turns == nullptr) turns = record.if_contains("conversation");
    if (turns == nullptr || !turns->is_array()) return corrupt_data("conversations: must be an array");
    const json::array& array = turns->get_array();
    if (array.size() > kMaxTurns) return corrupt_data(concat("conversations: over ", kMaxTurns, " turns"));

    std::int64_t history = 0;
    std::string history_text;
    std::int32_t rounds = 0;
    for (std::size_t i = 0; i + 1 < array.size() && rounds < options_.max_rounds; ++i) {
      std::string who, question, answer;
      PAGODA_RETURN_IF_ERROR(read_turn(array[i], i, who, question));
      // With one round, as in vLLM's benchmark, the first two turns count whoever speaks. With several
      // rounds, a question must come from the user.
      if (options_.max_rounds > 1 && !from_user(who)) continue;
      PAGODA_RETURN_IF_ERROR(read_turn(array[i + 1], i + 1, who, answer));
      PAGODA_ASSIGN_OR_RETURN(const auto prompt, count(question));
      PAGODA_ASSIGN_OR_RETURN(const auto output, count(answer));
      ++rounds;
      add_round(history, history_text, question, prompt, output);
      if (options_.max_rounds == 1) break;
      history += prompt + output;
      history_text += question + "\n" + answer + "\n";
      ++i;  // skip the answer
    }
    return ok_status();
  }

  void add_round(std::int64_t history, const std::string& history_text, const std::string& question,
                 std::int32_t prompt, std::int32_t output) {
    if (prompt < 1 || output < 1) return;
    if (options_.prune_like_vllm && (prompt < 4 || output < 4 || prompt > 1024 || prompt + output > 2048))
      return;
    WorkloadRequest request;
    request.arrival_s = std::numeric_limits<double>::quiet_NaN();
    const std::int64_t whole = history + prompt;
    const std::int64_t most = std::max<std::int64_t>(options_.max_history_tokens, prompt);
    const std::int64_t kept = options_.max_rounds == 1 ? prompt : std::min(whole, most);
    if (kept > kMaxTraceTokens) return;
    request.prompt_tokens = static_cast<std::int32_t>(kept);
    request.output_tokens = output;
    if (kept == whole) {
      request.prompt = history_text + question;
      request.shared_prefix_id = conversation_;
      request.shared_prefix_tokens = options_.max_rounds == 1 ? 0 : request.prompt_tokens;
    }
    ready_.push_back(std::move(request));
  }

  static Status read_turn(const json::value& turn, std::size_t index, std::string& who, std::string& value) {
    const std::string place = concat("conversations.", index);
    if (!turn.is_object()) return corrupt_data(concat(place, ": must be an object"));
    auto from = text_field(turn.get_object(), "from");
    if (!from) return from.error().annotate(place);
    auto text = text_field(turn.get_object(), "value");
    if (!text) return text.error().annotate(place);
    if (!*text) return corrupt_data(concat(place, ".value: missing"));
    who = *from ? **from : std::string();
    value = std::move(**text);
    return ok_status();
  }

  TextSource source_;
  TraceOptions options_;
  std::string element_;
  std::int64_t element_line_ = 1;
  bool started_ = false, in_array_ = false;
  std::uint64_t conversation_ = 0;
  std::deque<WorkloadRequest> ready_;
};

}  // namespace

std::unique_ptr<Workload> make_sharegpt_trace(TextSource source, const TraceOptions& options) {
  return std::make_unique<ShareGptTrace>(std::move(source), options);
}

}  // namespace pagoda
