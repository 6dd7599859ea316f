#pragma once
// Protocol: the API of one kind of client: its paths, the parsing of its bodies and the form of its answers.
// A protocol is a folder of api/ with a table of routes, and a line in server/protocols.cc. It depends on no
// other protocol, socket or engine. Shared parts are in this folder: strict JSON (json.h, field_reader.h),
// prompts (chat_prompt_tokens.h), growing answers (answer_state.h). Threads: handlers run on any thread,
// concurrently; they keep no state between calls.
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
// The cost of a handler: `inlined` handlers run immediately on the I/O thread; the others are queued in the
// job pool.
enum class Cost : std::uint8_t { inlined, text, generation };
enum class AnswerForm : std::uint8_t { json, text, sse, ndjson, file };
enum class BodyForm : std::uint8_t { none, any, json };  // none: read and discarded

inline constexpr std::size_t kServerBodyLimit = std::numeric_limits<std::size_t>::max();

// A row of the route table, without its handler.
struct RouteFacts {
  std::string_view method;  // GET also answers HEAD
  std::string_view path;    // exact; a final part in braces matches the rest: "/v1/models/{model}"
  Role role = Role::user;
  Cost cost = Cost::inlined;
  AnswerForm form = AnswerForm::json;  // form of a streamed answer
  BodyForm body = BodyForm::none;
  std::size_t max_body_bytes = kServerBodyLimit;  // 413 above this or the server's own limit
};

// Facts of a POST route that takes JSON.
constexpr RouteFacts post_json(std::string_view path, Cost cost, AnswerForm form,
                               std::size_t max_body_bytes = kServerBodyLimit) {
  return {.method = "POST",
          .path = path,
          .cost = cost,
          .form = form,
          .body = BodyForm::json,
          .max_body_bytes = max_body_bytes};
}

// One request, completely received.
struct ApiCall {
  std::string_view method, path;  // from the matching row
  std::string parameter;          // the part of the path in braces, decoded
  std::string query = {};         // after the path's '?', as sent
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string id;                                            // unique part of the answer's id
  std::int64_t created = 0;                                  // unix seconds
  std::string owner = {};  // name of the client's key, if there are several; not its secret

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
  // If set, the answer is a stream of this log's events from `first_event` on instead.
  std::shared_ptr<AnswerLog> follow = {};
  std::size_t first_event = 0;
};

// A call for the engine, parsed and validated.
struct ApiGeneration {
  std::string id;                 // as the client sees it
  std::vector<Request> requests;  // one per prompt; ids and arrival times are filled in by the submitter
  // Alternatives for the requests' constraint, compiled before the requests are submitted; the first that
  // compiles is used. Empty: no constraint.
  std::vector<GrammarSpec> grammars = {};
  std::unique_ptr<AnswerWriter> answer;
  Warnings warnings = {};                // for the answer's headers
  std::optional<double> timeout_s = {};  // how long the client waits, as stated in the body
  // If set, the client gets this body immediately, and the call continues in the background (answer_store.h).
  std::optional<std::string> at_once = {};
  std::shared_ptr<AnswerLog> follow = {};  // for a background call: the log to stream to the client instead
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
  // Header in which its clients expect the request id, in addition to x-request-id.
  std::string_view request_id_header = {};
};

}  // namespace pagoda
