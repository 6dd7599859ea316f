#include "api/anthropic/anthropic_protocol.h"

#include <algorithm>

#include "api/anthropic/message_writer.h"
#include "api/anthropic/messages_parser.h"
#include "api/chat_prompt_tokens.h"
#include "api/json.h"
#include "base/strings.h"

namespace pagoda {
namespace {

// Claude Code compacts the conversation when it reads exactly this message. If the prompt was too long to
// tokenize, its length is estimated as one token per four bytes.
Status in_its_words(const Status& error, const ChatCall& call, std::size_t body_bytes,
                    const ApiContext& context) {
  if (error.reason() != "context_length_exceeded") return error;
  const auto limit = static_cast<std::size_t>(context.max_model_len);
  const std::size_t tokens =
      call.prompt_tokens > 0 ? call.prompt_tokens : std::max(limit + 1, body_bytes / 4);
  return invalid_argument(concat("prompt is too long: ", tokens, " tokens > ", limit, " maximum"))
      .with_param(error.param())
      .with_reason(error.reason());
}

Result<ApiGeneration> messages(const ApiCall& call, const ApiContext& context) {
  Result<MessagesCall> parsed = parse_messages_call(call.body, /*counting=*/false, context);
  if (!parsed) return parsed.error();
  Result<ChatRequest> made = make_chat_request(parsed->chat, context);
  if (!made) return in_its_words(made.error(), parsed->chat, call.body.size(), context);
  ApiGeneration out;
  out.id = concat("msg_", call.id);
  out.requests.push_back(std::move(made->request));
  out.grammars = std::move(made->grammars);
  out.warnings = std::move(parsed->chat.warnings);
  out.answer = std::make_unique<MessageWriter>(out.id, std::move(parsed->chat.answer), parsed->stream,
                                               made->clipped, context);
  return out;
}

Result<ApiAnswer> count_tokens(const ApiCall& call, const ApiContext& context) {
  Result<MessagesCall> parsed = parse_messages_call(call.body, /*counting=*/true, context);
  if (!parsed) return parsed.error();
  const Result<std::vector<TokenId>> ids = chat_prompt_tokens(std::move(parsed->chat.conversation), context);
  if (!ids) return ids.error();
  std::string out;
  JsonWriter(out)
      .begin_object()
      .key("input_tokens")
      .integer(static_cast<std::int64_t>(ids->size()))
      .end_object();
  ApiAnswer answer(std::move(out));
  answer.warning = parsed->chat.warnings.header();
  return answer;
}

constexpr ApiRoute kRoutes[] = {
    {{.method = "POST",
      .path = "/v1/messages",
      .cost = Cost::generation,
      .form = AnswerForm::sse,
      .body = BodyForm::json},
     messages},
    {{.method = "POST", .path = "/v1/messages/count_tokens", .cost = Cost::text, .body = BodyForm::json},
     count_tokens},
};

constexpr Protocol kProtocol = {.name = "anthropic",
                                .routes = kRoutes,
                                .error_body = anthropic_error_body,
                                .request_id_header = "request-id"};

}  // namespace

const Protocol& anthropic_protocol() { return kProtocol; }

}  // namespace pagoda
