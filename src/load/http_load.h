#pragma once
// The load generator: sends a workload's requests to an OpenAI-compatible HTTP server and times the answers.
// Open loop: each request goes out at its arrival, however the server is doing. Closed loop: at most
// max_concurrency are out; the next one waits its turn (and its time counts from when it is sent, as in
// vLLM's benchmark). A request that fails is an outcome with its reason; the run goes on.
//
// Every wait is bounded: connecting, a byte of the answer, the whole answer. Connections are kept and reused.
// Not for the internet: plain HTTP only.
// Threads: everything runs on the caller's; blocks it until all requests have ended.
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
  std::vector<std::pair<std::string, std::string>> headers;  // beside the usual ones
  std::string request_id_prefix;  // not empty: X-Request-Id is this and the request's index
  std::optional<std::int32_t> max_concurrency;
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::milliseconds read_timeout{600'000};      // without a byte of the answer
  std::chrono::milliseconds total_timeout{21'600'000};  // one request
  AnswerReader::Texts texts = AnswerReader::Texts::drop;
  AnswerReader::Wants wants = AnswerReader::Wants::tokens;
  // The body of the index-th request.
  std::function<std::string(const WorkloadRequest&, std::uint64_t index)> body;
  // Now and then: requests ended, requests under way. May be empty.
  std::function<void(std::int64_t ended, std::int64_t running)> progress;
};

struct LoadResult {
  std::vector<RequestOutcome> outcomes;  // in order of arrival
  double duration_s = 0;                 // from the start to the last answer's end
  double cpu_s = 0;                      // processor time of this process: the cost of generating the load
  std::int64_t max_running = 0;
};

// An error only where the run itself cannot go on: the host's name is unknown, the workload is malformed.
Result<LoadResult> run_load(Workload& workload, const LoadOptions& options);

struct HttpAnswer {
  int status = 0;
  std::string body;
};

// One GET, or a POST when there is a body. unavailable: no answer within the options' times.
Result<HttpAnswer> fetch(const LoadOptions& options, const std::string& path,
                         const std::optional<std::string>& body = std::nullopt);

}  // namespace pagoda
