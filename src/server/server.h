#pragma once
// Server: the OpenAI-compatible HTTP/1.1 front of an engine. Binds on create(), serves in run(), and
// drains on stop() or SIGTERM/SIGINT: no new connections, 503 to new requests, the running ones finish
// within the limit and are then ended with an error event. A second signal ends the process at once.
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
  std::uint16_t port = 8000;  // 0: any free one
  std::string uds;            // a Unix socket's path instead of host and port; empty: none
  std::string admin_socket;   // the operator's own Unix socket, beside: who may open it is an administrator
  TlsFiles tls;               // on the port, or on `uds`
  std::vector<std::string> api_keys;         // neither these nor a file: open
  std::string api_key_file;                  // keys/key_file.h; read again when it changes, and on SIGHUP
  std::optional<bool> isolate_prefix_cache;  // between keys; absent: if there are several
  bool metrics_without_key = false;
  std::vector<std::string> allowed_origins;  // CORS; closed by default
  std::vector<std::string> allowed_hosts;    // further Host names on a loopback bind; "*": any
  std::vector<const Protocol*> protocols;    // none: all that there are
  std::string metrics_prefix = "vllm:";
  std::string root_path;          // prefix of a proxy in front: paths come with it or without; empty: none
  bool page = true;               // at /
  bool runtime_adapters = false;  // administrators may load and unload adapters
  bool access_log = true;
  bool handle_signals = true;      // SIGTERM and SIGINT drain, SIGHUP reloads
  std::function<void()> reload;    // on SIGHUP; none: there is nothing to reload
  std::function<void()> on_drain;  // as it begins; may be empty
  SpanSink* spans = nullptr;       // hears of each call that the engine answered; borrowed; null: nobody

  std::int32_t io_threads = 1;
  std::int32_t worker_threads = 1;                 // for jobs of any size; one more does small ones only
  std::chrono::milliseconds max_job_wait{10'000};  // before a request is parsed: 429
  std::size_t max_pending_calls = 1024;            // read, not yet handed to the engine
  std::size_t max_connections = 16384;             // beyond it idle ones are closed, the oldest first
  std::size_t max_body_bytes = std::size_t{32} << 20;
  std::size_t max_bodies_bytes = std::size_t{256} << 20;         // all requests being read or parsed
  std::size_t max_answer_memory = std::size_t{1} << 30;          // all answers being made and sent
  std::size_t max_stored_answers_bytes = std::size_t{64} << 20;  // that clients may ask for again; 0: none
  // The process's ledger, out of which the three above are taken; it may have less. Null: one of the server's
  // own, with all that they say.
  MemoryBudget* memory = nullptr;
  std::shared_ptr<const AnswerFiles> stored_answers = {};  // null: answers are kept in memory
  std::size_t max_unsent_bytes = std::size_t{256} << 10;   // a stream; beyond it outputs wait unrendered
  HttpLimits head_limits;

  std::chrono::milliseconds head_timeout{10'000};  // from a request's first byte to the end of its head
  std::chrono::milliseconds body_timeout{30'000};  // without a byte, and of a body that comes too slowly
  std::size_t min_body_rate = 1000;                // bytes a second, beyond body_timeout of credit
  std::chrono::milliseconds body_total_timeout{600'000};   // a whole body, at any rate
  std::chrono::milliseconds write_timeout{60'000};         // a reader that takes nothing
  std::chrono::milliseconds stream_ping_interval{10'000};  // in a stream that has nothing else to say
  std::chrono::milliseconds keep_alive_timeout{75'000};    // between requests
  std::chrono::milliseconds shutdown_timeout{30'000};      // for running requests on stop()
  std::chrono::milliseconds dead_engine_grace{5'000};      // with a red /health before run() gives up
};

class Server {
 public:
  // Binds and listens. Borrows the engine, context and registry. invalid_argument: an address that cannot
  // be bound, naming it.
  static Result<std::unique_ptr<Server>> create(ServerConfig config, EngineClient& engine,
                                                const ApiContext& context, MetricsRegistry& metrics);
  ~Server();

  // The errors that create() would give for addresses, keys and certificates, for callers that load a model
  // first.
  static Status check(const ServerConfig& config);

  // Until drained. unavailable: it ended because the engine had died; /health was red for a while before, and
  // the process should end with an error so that a supervisor starts another.
  Status run();
  void stop();  // begins to drain; idempotent
  std::uint16_t port() const;
  std::string url() const;  // "http://127.0.0.1:8000"; for a Unix socket "http://localhost"

 private:
  Server();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pagoda
