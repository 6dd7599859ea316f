#pragma once
// Protocol: how one kind of client talks to us: its paths, what its bodies mean, what its answers look like.
// A protocol is a folder of api/ with a table of rows, and a line in server/protocols.cc; none knows another,
// a socket or the engine. What all of them share stands beside this file: strict JSON (json.h,
// field_reader.h), prompts (chat_prompt_tokens.h), answers as they grow (answer_state.h). Threads: handlers
// run on any thread, several at a time; they keep nothing between calls.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "api/answer_log.h"
#include "api/answer_writer.h"
#include "api/api_context.h"
#include "api/errors.h"
#include "api/warnings.h"
#include "base/status.h"
#include "constraint/grammar_spec.h"
#include "request/request.h"

namespace pagoda {

// The role that a route requires.
enum class Role : std::uint8_t { anyone, user, metrics, admin };
// The cost of a handler: `inlined` ones run at once on the thread that reads sockets; the others wait for the
// job pool.
enum class Cost : std::uint8_t { inlined, text, generation };
enum class AnswerForm : std::uint8_t { json, text, sse, ndjson, file };
enum class BodyForm : std::uint8_t { none, any, json };  // none: read and dropped

inline constexpr std::size_t kServerBodyLimit = std::numeric_limits<std::size_t>::max();

// A route's row, without its handler.
struct RouteFacts {
  std::string_view method;  // GET answers HEAD, too
  std::string_view path;    // exact; a last part in braces takes all that follows: "/v1/models/{model}"
  Role role = Role::user;
  Cost cost = Cost::inlined;
  AnswerForm form = AnswerForm::json;  // form of a streamed answer
  BodyForm body = BodyForm::none;
  std::size_t max_body_bytes = kServerBodyLimit;  // 413 beyond it, or beyond the server's own limit
};

// One request, read to its end.
struct ApiCall {
  std::string_view method, path;  // the row that matched
  std::string parameter;          // the path's part in braces, decoded
  std::string query = {};         // behind the path's '?', as sent
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string id;                                            // unique part of the answer's id
  std::int64_t created = 0;                                  // unix seconds
  std::string owner = {};  // whose call it is, where keys tell clients apart; no secret

  std::string_view header(std::string_view name) const {
    for (const auto& [known, value] : headers)
      if (known == name) return value;
    return {};
  }
};

struct ApiAnswer {
  ApiAnswer(std::string text) : body(std::move(text)) {}  // NOLINT: a body is an answer
  std::string body;
  std::string content_type = "application/json";
  int status = 200;
  std::string warning = {};  // the header's value (warnings.h)
  // Given: the answer is the events of this log from `first_event` on, as they come, instead.
  std::shared_ptr<AnswerLog> follow = {};
  std::size_t first_event = 0;
};

// A call for the engine, understood and checked.
struct ApiGeneration {
  std::string id;                 // as the client sees it
  std::vector<Request> requests;  // one per prompt; ids and arrival times are the submitter's to fill in
  // To be compiled into the requests' constraint before they are submitted: the first that can be. None:
  // none.
  std::vector<GrammarSpec> grammars = {};
  std::unique_ptr<AnswerWriter> answer;
  Warnings warnings = {};                // for the head of the answer
  std::optional<double> timeout_s = {};  // how long the client waits for the answer, as its body says
  // Given: the client is answered this at once, and the call goes on without it (answer_store.h).
  std::optional<std::string> at_once = {};
  std::shared_ptr<AnswerLog> follow = {};  // for such a call: the log that the client is streamed instead
};

using AnswerHandler = Result<ApiAnswer> (*)(const ApiCall& call, const ApiContext& context);
using GenerationHandler = Result<ApiGeneration> (*)(const ApiCall& call, const ApiContext& context);

struct ApiRoute {
  RouteFacts facts;
  std::variant<AnswerHandler, GenerationHandler> handler;
};

struct Protocol {
  std::string_view name;
  std::span<const ApiRoute> routes;
  std::string (*error_body)(const ApiError& error) = nullptr;  // JSON
  // Header in which its clients look for the id, beside x-request-id
  std::string_view request_id_header = {};
};

}  // namespace pagoda
