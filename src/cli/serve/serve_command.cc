#include "cli/serve/serve_command.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <thread>
#include <utility>

#include "base/assign_or_return.h"
#include "base/log.h"
#include "base/log_thread.h"
#include "base/stack_traces.h"
#include "base/strings.h"
#include "base/version.h"
#include "base/watchdog.h"
#include "cli/assembly/assemble.h"
#include "cli/assembly/hub_settings.h"
#include "cli/assembly/machine.h"
#include "cli/assembly/memory_modes.h"
#include "cli/assembly/memory_plan.h"
#include "cli/assembly/poison_file.h"
#include "cli/assembly/runner_options.h"
#include "cli/flags/flag_values.h"
#include "cli/serve/log_level.h"
#include "cli/serve/model_watch.h"
#include "cli/serve/serve_sandbox.h"
#include "cli/serve/service_manager.h"
#include "cli/serve/stop_while_starting.h"
#include "cli/serve/try_lines.h"
#include "server/protocols.h"
#include "server/server.h"
#include "tracing/otlp_exporter.h"

namespace pagoda {
namespace {

constexpr double kServeTargetItlMs = 100;
constexpr double kServeQueueTimeS = 10;
constexpr int kExitStalled = 3;
constexpr std::int64_t kSpacious = std::int64_t{2} << 30;
constexpr std::chrono::seconds kStallGrace{8};  // time for the server to end its calls and itself

std::chrono::milliseconds to_milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

ServerConfig server_config(const ServerFlags& flags) {
  ServerConfig config;
  config.host = flags.host;
  config.port = static_cast<std::uint16_t>(flags.port);
  config.uds = flags.uds;
  config.admin_socket = flags.admin_socket;
  config.tls = {.certificates = flags.ssl_certfile,
                .key = flags.ssl_keyfile,
                .client_ca = flags.ssl_ca_certs,
                .client_certificates = flags.ssl_cert_reqs};
  config.api_keys = flags.api_keys;
  config.api_key_file = flags.api_key_file;
  config.isolate_prefix_cache = flags.isolate_prefix_cache;
  config.allowed_origins = flags.allowed_origins;
  config.allowed_hosts = flags.allowed_hosts;
  config.metrics_prefix = flags.metrics_prefix + ":";
  config.access_log = flags.access_log;
  config.root_path = flags.root_path;
  config.page = flags.page;
  config.max_body_bytes = static_cast<std::size_t>(flags.max_body_bytes);
  config.max_answer_memory = static_cast<std::size_t>(flags.max_answer_memory);
  config.max_stored_answers_bytes = static_cast<std::size_t>(flags.response_store_bytes);
  config.max_connections = static_cast<std::size_t>(flags.max_connections);
  config.io_threads = flags.io_threads > 0 ? flags.io_threads : std::clamp(usable_cores() / 8, 1, 4);
  config.worker_threads = config.io_threads;
  config.head_limits.max_head_bytes = static_cast<std::size_t>(flags.max_header_bytes);
  config.head_timeout = to_milliseconds(flags.header_timeout_s);
  config.body_timeout = to_milliseconds(flags.body_timeout_s);
  config.write_timeout = to_milliseconds(flags.write_timeout_s);
  config.keep_alive_timeout = to_milliseconds(flags.keep_alive_timeout_s);
  config.shutdown_timeout = to_milliseconds(flags.shutdown_timeout_s);
  return config;
}

bool is_loopback(const std::string& host) {
  return host.starts_with("127.") || host == "localhost" || host == "::1";
}

void warn_of_open_port(const ServerFlags& flags) {
  if (!flags.uds.empty() || is_loopback(flags.host)) return;
  if (flags.api_keys.empty() && flags.api_key_file.empty())
    log_warning("start", concat("--host ", flags.host, " without --api-key or --api-key-file: anyone who ",
                                "can reach this port can use the server"));
  else if (flags.ssl_certfile.empty())
    log_warning("start",
                concat("--host ", flags.host, " without --ssl-certfile: keys, prompts and answers cross ",
                       "the network unencrypted unless a proxy in front uses TLS"));
}

// With little memory, the allocator's own reserves matter. Makes it return freed memory at once, and lets
// threads share its arenas, each of which takes 64 MiB of address space.
void save_memory(std::int64_t limit) {
  if (limit >= kSpacious) return;
  mallopt(M_ARENA_MAX, 2);
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
  mallopt(M_TRIM_THRESHOLD, 1 << 20);
}

// A hanging engine thread cannot be joined, so the process exits and its supervisor restarts it. Streams have
// received error events by then, because the server considers the engine dead.
void end_stalled(AssembledEngine& engine) {
  log_error("engine", "the engine has made no progress for 30 s; stacks of its threads:");
  for (const std::string& trace : stack_traces()) {
    std::istringstream lines(trace);
    for (std::string line; std::getline(lines, line);) log_error("engine", line);
  }
  engine.give_up();
  std::this_thread::sleep_for(kStallGrace);
  log_error("engine", "ending the process, since the engine hangs");
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // lets the log thread write the message
  _exit(kExitStalled);
}

}  // namespace

std::vector<Flag> serve_flags(ServeArgs& args) {
  std::optional<std::int32_t>& max_tokens = args.engine.sampling.max_tokens;
  const auto store_max_tokens = [&max_tokens](std::int64_t tokens) {
    // -1 as in llama-server: no limit except the context.
    max_tokens = tokens < 1 ? std::nullopt : std::optional(static_cast<std::int32_t>(tokens));
  };
  return {
      {.name = "n-predict",
       .value = flags::integer(-1, 1 << 30, store_max_tokens),
       .help = "maximum number of output tokens of requests that set none; -1: up to the context length",
       .default_text = "the model's own",
       .aliases = {"-n", "--predict"}},
      {.name = "record",
       .value = flags::text(args.engine.record, "FILE"),
       .help = "write a log of requests, decisions and step times for simulate --replay; prompts are in it "
               "as token ids",
       .environment = true},
      {.name = "poison-record",
       .value = flags::text(args.engine.poison_record, "FILE"),
       .help = "file of hashes of requests that crashed the engine, which are then refused; none: keep none",
       .default_text = "in the cache folder, by port",
       .environment = true}};
}

void set_serving_defaults(EngineFlags& flags) {
  if (is_baseline(flags)) return;
  // Latency between tokens matters to clients, but not to commands that measure batches (bench, generate).
  if (!flags.target_itl_ms && flags.enable_chunked_prefill) flags.target_itl_ms = kServeTargetItlMs;
  if (!flags.max_queue_time_s) flags.max_queue_time_s = kServeQueueTimeS;
}

Status run_serve(const ServeArgs& args) {
  EngineFlags engine_flags = args.engine;
  set_serving_defaults(engine_flags);
  const ServerFlags& flags = engine_flags.server;
  if (engine_flags.poison_record.empty() && flags.port != 0)
    engine_flags.poison_record = default_poison_file(flags.port);
  ServerConfig config = server_config(flags);
  config.runtime_adapters = engine_flags.lora.runtime_updating;
  ServiceManager manager(std::getenv("NOTIFY_SOCKET"), std::getenv("WATCHDOG_USEC"),
                         std::getenv("WATCHDOG_PID"));
  config.on_drain = [&manager] { manager.notify("STOPPING=1"); };
  if (flags.log_format == "json") set_log_format(LogFormat::json);
  stop_while_starting();
  if (!flags.log_level.empty()) PAGODA_RETURN_IF_ERROR(set_log_level_by_name(flags.log_level));
  config.reload = LogLevelReload(engine_flags);
  PAGODA_ASSIGN_OR_RETURN(config.protocols, protocols_named(flags.apis));
  if (!flags.response_store_dir.empty() && engine_flags.mpi_rank == 0) {
    PAGODA_ASSIGN_OR_RETURN(auto files, AnswerFiles::open(flags.response_store_dir));
    config.stored_answers = std::move(files);
  }
  // Only rank 0 listens; other ranks may be on machines without this address.
  if (engine_flags.mpi_rank == 0) PAGODA_RETURN_IF_ERROR(Server::check(config));
  PAGODA_RETURN_IF_ERROR(fetch_if_missing(engine_flags));
  const auto model = model_path(engine_flags);
  auto model_files =
      std::make_unique<ModelWatch>(model ? ModelWatch::files_of(*model) : std::vector<std::string>{});
  PAGODA_ASSIGN_OR_RETURN(const auto sandbox, enter_serve_sandbox(engine_flags));
  PAGODA_ASSIGN_OR_RETURN(auto engine, AssembledEngine::create(engine_flags, AssembledEngine::Report::table));
  if (engine->tokenizer() == nullptr)
    return invalid_argument("the model has no tokenizer: give one with --tokenizer");
  config.memory = &engine->ledger();
  // The server and the engine have separate objects for the same steady clock.
  const SteadyClock clock;
  std::unique_ptr<OtlpExporter> spans;  // outlives the server
  if (!flags.otlp_traces_endpoint.empty()) {
    auto exporter = OtlpExporter::create(flags.otlp_traces_endpoint, clock, version(), engine->metrics());
    if (!exporter) return exporter.error().annotate("--otlp-traces-endpoint");
    spans = *std::move(exporter);
    config.spans = spans.get();
  }
  PAGODA_ASSIGN_OR_RETURN(auto server,
                          Server::create(config, engine->client(), engine->api(), engine->metrics()));
  log_ledger(engine->ledger());
  log_info("start", concat("sandbox: ", sandbox));
  save_memory(engine->ledger().limit());
  warn_of_open_port(flags);
  if (log_format() == LogFormat::text) {
    std::fputs(try_lines(server->url(), flags, engine->api()).c_str(), stdout);
    std::fflush(stdout);
  }
  const LogThread log_thread;  // started after ranks are forked
  // Destroyed before the engine's metrics.
  const std::unique_ptr<ModelWatch> model_watch = std::move(model_files);
  model_watch->start(engine->metrics());
  std::vector<std::unique_ptr<Watchdog>> watchdogs;
  // A step of an emulated device may take minutes.
  const bool hangs_are_seen = engine_flags.device != "emulated";
  for (std::size_t i = 0; hangs_are_seen && i < engine->num_engines(); ++i)
    watchdogs.push_back(std::make_unique<Watchdog>(
        Watchdog::Options{}, [&engine, i] { return engine->beat(i); }, [&engine] { end_stalled(*engine); }));
  manager.notify("READY=1");
  manager.keep_alive([&engine] { return engine->client().healthy(); });
  Status ended = server->run();
  engine->stop();
  return ended;
}

}  // namespace pagoda
