#pragma once
// The load generator: sends a workload's requests to an OpenAI-compatible HTTP server and times the answers.
// Open loop: each request is sent at its arrival time, regardless of the server. Closed loop: at most
// max_concurrency requests are in flight; a waiting request is timed from when it is sent, as in vLLM's
// benchmark. A failed request is an outcome with a reason and does not stop the run.
//
// Every wait is bounded: connecting, a byte of the answer, the whole answer. Connections are reused. Plain
// HTTP only; not for the internet.
// Threads: runs on the caller's thread and blocks it until all requests have ended.
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "load/answer_reader.h"
#include "load/workload.h"

namespace pagoda {

struct HttpServerAddress {
  std::string host;
  std::string port;
  std::string path;  // prefix of every endpoint; empty or "/prefix"
};

// "http://host:port/prefix". invalid_argument: not a URL; unimplemented: https.
Result<HttpServerAddress> parse_base_url(std::string_view url);

struct LoadOptions {
  HttpServerAddress server;
  std::string endpoint = "/v1/completions";
  std::vector<std::pair<std::string, std::string>> headers;  // in addition to the usual headers
  std::string request_id_prefix;  // if not empty, X-Request-Id is this plus the request's index
  std::optional<std::int32_t> max_concurrency;
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::milliseconds read_timeout{600'000};      // without receiving a byte of the answer
  std::chrono::milliseconds total_timeout{21'600'000};  // per request
  AnswerReader::Texts texts = AnswerReader::Texts::drop;
  AnswerReader::Wants wants = AnswerReader::Wants::tokens;
  // Returns the body of the index-th request.
  std::function<std::string(const WorkloadRequest&, std::uint64_t index)> body;
  // Called periodically with the numbers of ended and running requests. May be empty.
  std::function<void(std::int64_t ended, std::int64_t running)> progress;
};

struct LoadResult {
  std::vector<RequestOutcome> outcomes;  // in order of arrival
  double duration_s = 0;                 // from the start to the end of the last answer
  double cpu_s = 0;                      // processor time of this process: the cost of generating the load
  std::int64_t max_running = 0;
};

// Fails only if the run itself cannot continue: an unknown host name, a malformed workload.
Result<LoadResult> run_load(Workload& workload, const LoadOptions& options);

struct HttpAnswer {
  int status = 0;
  std::string body;
};

// Sends a GET, or a POST if there is a body. unavailable: no answer within the time limits of `options`.
Result<HttpAnswer> fetch(const LoadOptions& options, const std::string& path,
                         const std::optional<std::string>& body = std::nullopt);

}  // namespace pagoda
