#pragma once
// Server: the OpenAI-compatible HTTP/1.1 server in front of an engine. Binds in create(), serves in run(),
// and drains on stop() or SIGTERM/SIGINT: no new connections, 503 to new requests. Running requests may
// finish within the limit, then end with an error event. A second signal ends the process immediately.
//
//     I/O threads: sockets, HTTP, detokenising and SSE of their connections
//     job pool: JSON, chat templates, tokenising, long answers (job_pool.h)
//
// Threads: run() on the caller's thread, which becomes the first I/O thread; stop() from any.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/answer_files.h"
#include "api/api_context.h"
#include "api/protocol.h"
#include "base/memory_budget.h"
#include "base/metrics.h"
#include "base/status.h"
#include "engine/client.h"
#include "request/request_span.h"
#include "server/http_request.h"
#include "server/transport/tls.h"

namespace pagoda {

struct ServerConfig {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8000;          // 0: any free port
  std::string uds;                    // path of a Unix socket to use instead of host and port; empty: none
  std::string admin_socket;           // an additional Unix socket, for administrators without a key
  TlsFiles tls;                       // for the port or `uds`
  std::vector<std::string> api_keys;  // neither keys nor a file: open
  std::string api_key_file;           // keys/key_file.h; reloaded on change and on SIGHUP
  std::optional<bool> isolate_prefix_cache;  // between keys; nullopt: if there are several
  bool metrics_without_key = false;
  std::vector<std::string> allowed_origins;  // CORS; none by default
  std::vector<std::string> allowed_hosts;    // further Host names on a loopback address; "*": any
  std::vector<const Protocol*> protocols;    // empty: all protocols
  std::string metrics_prefix = "vllm:";
  std::string root_path;          // path prefix of a proxy in front, accepted with or without; empty: none
  bool page = true;               // serve the page at /
  bool runtime_adapters = false;  // administrators may load and unload adapters
  bool access_log = true;
  bool handle_signals = true;      // SIGTERM and SIGINT drain, SIGHUP reloads
  std::function<void()> reload;    // called on SIGHUP; empty: nothing to reload
  std::function<void()> on_drain;  // called when draining begins; may be empty
  SpanSink* spans = nullptr;       // gets a span of each call that the engine answered; borrowed; may be null

  std::int32_t io_threads = 1;
  std::int32_t worker_threads = 1;                 // for all jobs; one more thread does only small jobs
  std::chrono::milliseconds max_job_wait{10'000};  // before a request is parsed; then 429
  std::size_t max_pending_calls = 1024;            // read but not yet submitted to the engine
  std::size_t max_connections = 16384;             // above it, idle ones are closed, oldest first
  std::size_t max_body_bytes = std::size_t{32} << 20;
  std::size_t max_bodies_bytes = std::size_t{256} << 20;         // over all requests being read or parsed
  std::size_t max_answer_memory = std::size_t{1} << 30;          // over all answers being made and sent
  std::size_t max_stored_answers_bytes = std::size_t{64} << 20;  // that clients can retrieve; 0: none
  // The process's ledger, from which the three above are taken; it may have less memory than they ask for.
  // Null: the server uses its own ledger, large enough for all three.
  MemoryBudget* memory = nullptr;
  std::shared_ptr<const AnswerFiles> stored_answers = {};  // null: answers are stored in memory
  std::size_t max_unsent_bytes = std::size_t{256} << 10;   // per stream; above it, outputs wait unrendered
  HttpLimits head_limits;

  std::chrono::milliseconds head_timeout{10'000};  // from a request's first byte to the end of its head
  std::chrono::milliseconds body_timeout{30'000};  // without a byte, or below min_body_rate
  std::size_t min_body_rate = 1000;                // bytes per second, after a credit of body_timeout
  std::chrono::milliseconds body_total_timeout{600'000};   // for a whole body, at any rate
  std::chrono::milliseconds write_timeout{60'000};         // while the client reads nothing
  std::chrono::milliseconds stream_ping_interval{10'000};  // in an idle stream
  std::chrono::milliseconds keep_alive_timeout{75'000};    // between requests
  std::chrono::milliseconds shutdown_timeout{30'000};      // for running requests to finish on stop()
  std::chrono::milliseconds dead_engine_grace{5'000};      // with a failing /health, before run() gives up
};

class Server {
 public:
  // Binds and listens. Borrows the engine, context and registry. invalid_argument, naming the address, if it
  // cannot be bound.
  static Result<std::unique_ptr<Server>> create(ServerConfig config, EngineClient& engine,
                                                const ApiContext& context, MetricsRegistry& metrics);
  ~Server();

  // Returns the error that create() would return for addresses, keys and certificates. For callers that load
  // a model first.
  static Status check(const ServerConfig& config);

  // Serves until drained. unavailable: the engine has failed, and /health has reported it for
  // dead_engine_grace. The process should then end with an error, so that a supervisor restarts it.
  Status run();
  void stop();  // starts draining; idempotent
  std::uint16_t port() const;
  std::string url() const;  // "http://127.0.0.1:8000"; for a Unix socket "http://localhost"

 private:
  Server();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pagoda
