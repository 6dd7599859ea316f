#include "api/ollama/ollama_writer.h"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <ctime>

namespace pagoda {

namespace json = boost::json;

std::string ollama_error_body(const ApiError& error) {
  std::string out;
  JsonWriter(out).begin_object().key("error").string(to_valid_utf8(error.message)).end_object();
  return out;
}

std::string rfc3339(std::int64_t unix_seconds) {
  const std::time_t time = unix_seconds;
  std::tm parts{};
  char text[32] = {};
  if (gmtime_r(&time, &parts) == nullptr) return "1970-01-01T00:00:00Z";
  const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return std::string(text, length);
}

OllamaWriter::OllamaWriter(OllamaCall call, std::int64_t created, const ApiContext& context)
    : StateWriter(std::move(call.answer), call.stream, context),
      chat_(call.chat),
      loads_only_(!call.request.has_value()),
      created_(rfc3339(created)) {}

void OllamaWriter::write_calls(JsonWriter& writer) const {
  writer.key("tool_calls").begin_array();
  for (const auto& [index, call] : calls_) {
    json::object arguments;
    Result<json::value> value = parse_json(call.arguments.empty() ? "{}" : std::string_view(call.arguments));
    if (value && value->is_object())
      arguments = std::move(value->as_object());
    else  // what the model wrote is no object: a client is shown it all the same
      arguments["arguments"] = to_valid_utf8(call.arguments);
    writer.begin_object().key("function").begin_object().key("index").integer(index);
    writer.key("name").string(to_valid_utf8(call.name));
    writer.key("arguments").raw(json::serialize(arguments)).end_object().end_object();
  }
  writer.end_array();
}

void OllamaWriter::write_end(JsonWriter& writer) const {
  if (loads_only_) {
    writer.key("done_reason").string("load");
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

void OllamaWriter::write_line(std::string& out, const ChoiceState::Fresh& fresh, bool last) {
  JsonWriter writer(out);
  writer.begin_object().key("model").string(context_.model_names.front());
  writer.key("created_at").string(created_);
  if (chat_) writer.key("message").begin_object().key("role").string("assistant");
  writer.key(chat_ ? "content" : "response").string(to_valid_utf8(fresh.text));
  if (!fresh.reasoning.empty()) writer.key("thinking").string(to_valid_utf8(fresh.reasoning));
  if (last && !calls_.empty()) write_calls(writer);
  if (chat_) writer.end_object();
  writer.key("done").boolean(last);
  if (last) write_end(writer);
  writer.end_object();
}

void OllamaWriter::write_events(std::string& out) {
  if (!state_.error().ok()) {
    out.append(ollama_error_body(api_error(state_.error()))).append("\n");
    return;
  }
  ChoiceState::Fresh fresh;
  if (!loads_only_) fresh = std::exchange(state_.choices.front().fresh, {});
  for (const ChoiceState::CallPiece& piece : fresh.calls) {
    if (piece.name) calls_[piece.index].name = *piece.name;
    calls_[piece.index].arguments += piece.arguments;
  }
  if (!state_.finished() && fresh.text.empty() && fresh.reasoning.empty()) return;
  write_line(out, fresh, state_.finished());
  out.append("\n");
}

void OllamaWriter::write_body(std::string& out) {
  write_events(out);
  out.pop_back();
}

}  // namespace pagoda
