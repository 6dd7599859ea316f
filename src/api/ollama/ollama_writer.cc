#include "api/ollama/ollama_writer.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <iterator>

#include "api/logprob_writer.h"
#include "api/time_text.h"
#include "api/tool_fields.h"

namespace pagoda {

namespace json = boost::json;

std::string ollama_error_body(const ApiError& error) {
  std::string out;
  JsonWriter(out).begin_object().key("error").string(to_valid_utf8(error.message)).end_object();
  return out;
}

OllamaWriter::OllamaWriter(OllamaCall call, std::string id, std::int64_t created, const ApiContext& context)
    : StateWriter(std::move(call.answer), call.stream, context),
      chat_(call.chat),
      loads_only_(!call.request.has_value()),
      unloads_(call.unloads),
      id_(std::move(id)),
      created_(rfc3339(created)) {}

void OllamaWriter::write_calls(JsonWriter& writer, const std::vector<Call>& calls) const {
  writer.key("tool_calls").begin_array();
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const Call& call = calls[i];
    json::object arguments;
    Result<json::value> value = parse_json(call.arguments.empty() ? "{}" : std::string_view(call.arguments));
    if (value && value->is_object())
      arguments = std::move(value->as_object());
    else  // arguments that are not an object are still shown
      arguments["arguments"] = to_valid_utf8(call.arguments);
    writer.begin_object().key("id").string(to_valid_utf8(call.id)).key("function").begin_object();
    writer.key("index").integer(static_cast<std::int64_t>(num_written_ - calls.size() + i));
    writer.key("name").string(to_valid_utf8(call.name));
    writer.key("arguments").raw(json::serialize(arguments)).end_object().end_object();
  }
  writer.end_array();
}

void OllamaWriter::write_logprobs(JsonWriter& writer, const std::vector<TokenLogprobs>& logprobs) const {
  writer.key("logprobs").begin_array();
  for (const TokenLogprobs& token : logprobs)
    write_token_logprobs(writer, token, *context_.tokenizer, {.with_top = options_.logprobs.value_or(0) > 0});
  writer.end_array();
}

void OllamaWriter::write_end(JsonWriter& writer) const {
  if (loads_only_) {
    writer.key("done_reason").string(unloads_ ? "unload" : "load");
    return;
  }
  const bool length = state_.choices.front().finish_reason == FinishReason::length;
  writer.key("done_reason").string(length ? "length" : "stop");
  const Usage usage = state_.usage();
  const RequestTimes times = state_.times();
  writer.key("total_duration").integer(times.last_token - times.arrival).key("load_duration").integer(0);
  writer.key("prompt_eval_count").integer(usage.prompt_tokens);
  writer.key("prompt_eval_duration").integer(times.prefill());
  writer.key("eval_count").integer(usage.completion_tokens);
  writer.key("eval_duration").integer(times.decode());
}

void OllamaWriter::write_line(std::string& out, const Line& line) {
  JsonWriter writer(out);
  writer.begin_object().key("model").string(model_name());
  writer.key("created_at").string(created_);
  if (chat_) writer.key("message").begin_object().key("role").string("assistant");
  writer.key(chat_ ? "content" : "response").string(to_valid_utf8(line.text));
  if (!line.reasoning.empty()) writer.key("thinking").string(to_valid_utf8(line.reasoning));
  if (!line.calls.empty()) write_calls(writer, line.calls);
  if (chat_) writer.end_object();
  writer.key("done").boolean(line.last);
  if (!line.logprobs.empty()) write_logprobs(writer, line.logprobs);
  if (line.last) write_end(writer);
  writer.end_object();
}

void OllamaWriter::absorb() {
  if (loads_only_) return;
  ChoiceState::Fresh fresh = std::exchange(state_.choices.front().fresh, {});
  pending_.text += fresh.text;
  pending_.reasoning += fresh.reasoning;
  std::ranges::move(fresh.logprobs, std::back_inserter(pending_.logprobs));
  for (ChoiceState::CallPiece& piece : fresh.calls) {
    const auto index = static_cast<std::size_t>(piece.index);
    if (index >= calls_.size()) calls_.resize(index + 1);
    Call& call = calls_[index];
    if (piece.name) {
      call.name = *std::move(piece.name);
      call.id = piece.id.empty() ? tool_call_id(id_, 0, piece.index) : std::move(piece.id);
    }
    call.arguments += piece.arguments;
  }
}

std::vector<OllamaWriter::Call> OllamaWriter::take_calls() {
  const std::size_t complete = state_.finished() || calls_.empty() ? calls_.size() : calls_.size() - 1;
  std::vector<Call> out;
  for (; num_written_ < complete; ++num_written_) out.push_back(std::move(calls_[num_written_]));
  return out;
}

void OllamaWriter::write_events(std::string& out) {
  if (!state_.error().ok()) {
    out.append(ollama_error_body(api_error(state_.error()))).append("\n");
    return;
  }
  absorb();
  pending_.calls = take_calls();
  if (!pending_.text.empty() || !pending_.reasoning.empty() || !pending_.calls.empty()) {
    write_line(out, std::exchange(pending_, {}));
    out.append("\n");
  }
  if (!state_.finished()) return;
  pending_.last = true;
  write_line(out, std::exchange(pending_, {}));
  out.append("\n");
}

void OllamaWriter::write_body(std::string& out) {
  absorb();
  pending_.calls = take_calls();
  pending_.last = true;
  write_line(out, pending_);
}

}  // namespace pagoda
