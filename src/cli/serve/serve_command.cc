#include "cli/serve/serve_command.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "base/log.h"
#include "base/log_thread.h"
#include "base/strings.h"
#include "cli/assembly/assemble.h"
#include "cli/assembly/memory_modes.h"
#include "server/protocols.h"
#include "server/server.h"

namespace pagoda {
namespace {

constexpr double kServeTargetItlMs = 100;
constexpr double kServeQueueTimeS = 10;

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

ServerConfig server_config(const ServerFlags& flags) {
  ServerConfig config;
  config.host = flags.host;
  config.port = static_cast<std::uint16_t>(flags.port);
  config.api_keys = flags.api_keys;
  config.allowed_origins = flags.allowed_origins;
  config.allowed_hosts = flags.allowed_hosts;
  config.metrics_prefix = flags.metrics_prefix + ":";
  config.access_log = flags.access_log;
  config.page = flags.page;
  config.max_body_bytes = static_cast<std::size_t>(flags.max_body_bytes);
  config.max_answer_memory = static_cast<std::size_t>(flags.max_answer_memory);
  config.max_stored_answers_bytes = static_cast<std::size_t>(flags.response_store_bytes);
  config.max_connections = static_cast<std::size_t>(flags.max_connections);
  config.head_limits.max_head_bytes = static_cast<std::size_t>(flags.max_header_bytes);
  config.head_timeout = milliseconds(flags.header_timeout_s);
  config.body_timeout = milliseconds(flags.body_timeout_s);
  config.write_timeout = milliseconds(flags.write_timeout_s);
  config.keep_alive_timeout = milliseconds(flags.keep_alive_timeout_s);
  config.shutdown_timeout = milliseconds(flags.shutdown_timeout_s);
  return config;
}

bool is_loopback(const std::string& host) {
  return host.starts_with("127.") || host == "localhost" || host == "::1";
}

// The line a newcomer can paste into another terminal.
void print_try_line(const std::string& url, const AssembledEngine& engine) {
  std::printf("Pagoda serves %s at %s\n", engine.model_name().c_str(), url.c_str());
  if (engine.chat_template() != nullptr) {
    std::printf(
        "Try it:\n  curl %s/v1/chat/completions -H 'Content-Type: application/json' \\\n"
        "    -d '{\"messages\": [{\"role\": \"user\", \"content\": \"What is the capital of Japan?\"}], "
        "\"temperature\": 0}'\n",
        url.c_str());
  } else {
    std::printf(
        "Try it:\n  curl %s/v1/completions -H 'Content-Type: application/json' \\\n"
        "    -d '{\"prompt\": \"The capital of France is\", \"max_tokens\": 16}'\n",
        url.c_str());
  }
  std::fflush(stdout);
}

}  // namespace

Status run_serve(const ServeArgs& args) {
  EngineFlags engine_flags = args.engine;
  // Clients feel the gaps between tokens; who measures batches (bench, generate) does not.
  if (!engine_flags.target_itl_ms && engine_flags.enable_chunked_prefill && !is_baseline(engine_flags))
    engine_flags.target_itl_ms = kServeTargetItlMs;
  if (!engine_flags.max_queue_time_s && !is_baseline(engine_flags))
    engine_flags.max_queue_time_s = kServeQueueTimeS;
  const ServerFlags& flags = engine_flags.server;
  ServerConfig config = server_config(flags);
  auto protocols = protocols_named(flags.apis);
  if (!protocols) return protocols.error();
  config.protocols = *std::move(protocols);
  // Only rank 0 will listen; the others may be on machines that do not have the address.
  if (engine_flags.mpi_rank == 0) PAGODA_RETURN_IF_ERROR(Server::check_address(config.host, config.port));
  auto engine = AssembledEngine::create(engine_flags, AssembledEngine::Report::table);
  if (!engine) return engine.error();
  if ((*engine)->tokenizer() == nullptr)
    return invalid_argument("the model has no tokenizer; give one with --tokenizer");
  auto server = Server::create(config, (*engine)->client(), (*engine)->api(), (*engine)->metrics());
  if (!server) return server.error();
  if (!is_loopback(flags.host) && flags.api_keys.empty())
    log_warning("start",
                concat("--host ", flags.host, " without --api-key: anyone who reaches this port may use it"));
  print_try_line((*server)->url(), **engine);
  const LogThread log_thread;  // ranks have been forked before it
  Status ended = (*server)->run();
  (*engine)->stop();
  return ended;
}

}  // namespace pagoda
