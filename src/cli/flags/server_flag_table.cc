// The rows of the server's flags.
#include "cli/flags/engine_flag_table.h"
#include "cli/flags/flag_values.h"

namespace pagoda {
namespace {

constexpr double kMaxSeconds = 86'400;
constexpr std::int64_t kMinBytes = 1024, kMaxBytes = std::int64_t{1} << 40;

// vLLM takes a JSON list, people write commas: both give the same.
FlagValue list(std::vector<std::string>& variable) {
  const auto store = [&variable](const std::string& value) -> Status {
    std::vector<std::string> items(1);
    for (const char c : value) {
      if (c == ',')
        items.emplace_back();
      else if (c != '[' && c != ']' && c != '"' && c != ' ')
        items.back().push_back(c);
    }
    std::erase(items, std::string());
    for (std::string& item : items) variable.push_back(std::move(item));
    return ok_status();
  };
  return {.shape = FlagValue::Shape::repeated, .type = "LIST", .store = store};
}

}  // namespace

std::vector<Flag> server_flag_table(ServerFlags& flags) {
  const auto seconds = [](const char* name, double& variable, double low, const char* help,
                          const char* details = "") {
    return Flag{.name = name,
                .value = flags::number(variable, low, kMaxSeconds),
                .help = help,
                .details = details,
                .type = "S"};
  };
  const auto store_root = [&flags](const std::string& value) -> Status {
    std::string path = value;
    while (path.ends_with('/')) path.pop_back();
    if (!path.empty() && !path.starts_with('/')) return invalid_argument("must begin with /");
    flags.root_path = std::move(path);
    return ok_status();
  };
  const auto store_verbose = [&flags](const std::string&) {
    flags.log_level = "debug";
    return ok_status();
  };
  bool unset = false;
  FlagValue isolate = flags::on_off(unset);
  isolate.default_text.clear();
  isolate.store = [&flags](const std::string& value) {
    flags.isolate_prefix_cache = value == "true";
    return ok_status();
  };
  return {
      {.name = "host",
       .value = flags::text(flags.host, "ADDRESS"),
       .help = "address to listen on; 0.0.0.0: all",
       .default_text = flags.host},
      {.name = "port",
       .value = flags::int32(flags.port, 0, 65535),
       .help = "port; 0: any free one",
       .details = "port; 0: any free one, printed at start"},
      {.name = "uds",
       .value = flags::text(flags.uds, "PATH"),
       .help = "Unix socket to listen on instead of host and port"},
      {.name = "admin-socket",
       .value = flags::text(flags.admin_socket, "PATH"),
       .help = "Unix socket beside, mode 0600: administration without a key"},
      {.name = "ssl-certfile",
       .value = flags::text(flags.ssl_certfile, "FILE"),
       .help = "certificate and its chain in PEM: serve TLS 1.2 and 1.3",
       .details = "certificate and its chain in PEM: serve TLS 1.2 and 1.3. SIGHUP reads the files again; no "
                  "stream is cut",
       .aliases = {"--ssl-cert-file"}},
      {.name = "ssl-keyfile",
       .value = flags::text(flags.ssl_keyfile, "FILE"),
       .help = "its private key in PEM, without passphrase",
       .default_text = "in the certificate's file",
       .aliases = {"--ssl-key-file"}},
      {.name = "ssl-ca-certs",
       .value = flags::text(flags.ssl_ca_certs, "FILE"),
       .help = "certificate authorities of clients' certificates, in PEM"},
      {.name = "ssl-cert-reqs",
       .value = flags::int32(flags.ssl_cert_reqs, 0, 2),
       .help = "clients' certificates: 0 none, 1 optional, 2 required"},
      {.name = "api",
       .value = list(flags.apis),
       .help = "protocols served: openai, responses, anthropic, ollama, ...; all unless given",
       .details = "protocols served, with commas between: `openai`, `responses`, `anthropic`, "
                  "`ollama`, `lmstudio`, `llamacpp`, `pooling`; all unless given"},
      {.name = "api-key",
       .value = flags::several(flags.api_keys, "KEY"),
       .help = "required of clients; one or several [env PAGODA_API_KEY]",
       .details = "required of clients, which send `Authorization: Bearer KEY`; takes all words up to the "
                  "next flag. "
                  "A single one may do everything, several are users. `ps` does not show it; better still is "
                  "PAGODA_API_KEY",
       .secret = true},
      {.name = "api-key-file",
       .value = flags::text(flags.api_key_file, "FILE"),
       .help = "YAML list of keys with roles and limits, as `pagoda key new` writes it",
       .details =
           "YAML list of keys with roles and limits, as `pagoda key new` writes it; read again when it "
           "changes and on SIGHUP (docs/operations.md)"},
      {.name = "isolate-prefix-cache",
       .value = isolate,
       .help = "each key has its own prefix cache",
       .default_text = "where there are several keys"},
      {.name = "allowed-origins",
       .value = list(flags.allowed_origins),
       .help = "CORS: origins, or *",
       .details = "CORS: origins with commas between, or `*`"},
      {.name = "allowed-hosts",
       .value = list(flags.allowed_hosts),
       .help = "Host names served on a loopback address, or *",
       .details = "Host names answered on a loopback address beside the loopback names, with commas between; "
                  "`*`: any"},
      {.name = "trust-request-chat-template",
       .value = flags::on(flags.trust_request_chat_template),
       .help = "chat requests may bring a chat_template of their own",
       .details = "chat requests may bring a `chat_template` of their own, in place of the model's"},
      {.name = "metrics-prefix",
       .value = flags::choice(flags.metrics_prefix, {"vllm", "pagoda"}),
       .help = "prefix of vLLM's metrics in /metrics; the others are always pagoda:"},
      {.name = "max-body-bytes",
       .value = flags::int64(flags.max_body_bytes, kMinBytes, kMaxBytes),
       .help = "larger request bodies get 413"},
      {.name = "max-answer-memory",
       .value = flags::int64(flags.max_answer_memory, kMinBytes, kMaxBytes),
       .help = "memory for answers being made and sent, in bytes; requests beyond it get 429",
       .details = "memory for answers being made and sent, in bytes, as predicted when a request arrives; "
                  "requests beyond it get 429"},
      {.name = "response-store-bytes",
       .value = flags::int64(flags.response_store_bytes, 0, kMaxBytes),
       .help = "memory for the answers that /v1/responses stores; 0: none are stored",
       .details = "memory for the answers that `/v1/responses` stores; the least recently used is evicted "
                  "first; 0: none are stored"},
      {.name = "response-store-dir",
       .value = flags::text(flags.response_store_dir, "DIR"),
       .help = "a folder where those answers outlive the process",
       .details =
           "a folder for those answers, one file each, so that they outlive the process; made where there "
           "is none; without it they are in memory"},
      {.name = "max-header-bytes",
       .value = flags::int64(flags.max_header_bytes, kMinBytes, kMaxBytes),
       .help = "larger request headers get 431"},
      {.name = "max-connections",
       .value = flags::int32(flags.max_connections, 1),
       .help = "open connections; more get 503"},
      {.name = "io-threads",
       .value = flags::int32(flags.io_threads, 0, 64),
       .help = "threads that read, detokenize and write",
       .default_text = "one for each eight cores, at most four"},
      seconds("header-timeout", flags.header_timeout_s, 0.1, "for a request's headers to arrive",
              "for a request's head to arrive: 408 after it"),
      seconds("body-timeout", flags.body_timeout_s, 0.1, "without a byte of a request's body",
              "without a byte of a request's body: 408 after it"),
      seconds("write-timeout", flags.write_timeout_s, 0.1, "for a client to take anything at all",
              "a client that takes nothing for so long is hung up on"),
      seconds("keep-alive-timeout", flags.keep_alive_timeout_s, 0.1, "idle connections"),
      seconds("shutdown-timeout", flags.shutdown_timeout_s, 0, "after SIGTERM, for running requests",
              "after SIGTERM or SIGINT, for running requests; a second signal ends at once"),
      {.name = "root-path",
       .value = flags::parsed("PATH", store_root),
       .help = "path at which a proxy in front serves this server: /models/small",
       .details = "path at which a proxy in front serves this server, as `/models/small`: requests may come "
                  "with it or without, and /openapi.json names it",
       .aliases = {"--api-prefix"}},
      {.name = "ui",
       .value = flags::on_off(flags.page),
       .help = "the page at /: chat, and the engine live",
       .aliases = {"--webui"}},
      {.name = "otlp-traces-endpoint",
       .value = flags::text(flags.otlp_traces_endpoint, "URL"),
       .help = "OpenTelemetry collector that gets a span for each request: http://HOST:4318/v1/traces",
       .details = "OpenTelemetry collector that gets a span for each request, over HTTP in JSON "
                  "([operations](operations.md#traces)): `http://HOST:4318/v1/traces`"},
      {.name = "log-level",
       .value = flags::choice(flags.log_level, {"debug", "info", "warning", "error"}),
       .help = "verbosity of the log; SIGHUP reads it again from a --config file",
       .default_text = "PAGODA_LOGGING_LEVEL, else info"},
      {.name = "verbose",
       .value = {.shape = FlagValue::Shape::on, .store = store_verbose},
       .help = "llama-server's name of --log-level debug",
       .aliases = {"-v", "--log-verbose"}},
      {.name = "log-format",
       .value = flags::choice(flags.log_format, {"text", "json"}),
       .help = "form of the log's lines: text as vLLM's, or one JSON object each",
       .default_text = "text"},
      {.name = "sandbox",
       .value = flags::on_off(flags.sandbox),
       .help = "once started, only its own files, no connections outwards, no other programs",
       .details =
           "once it has its flags the server opens only its model, keys, certificates, caches and the "
           "system's libraries, begins no connections and starts no programs (Landlock and seccomp, as far "
           "as the kernel has them)"},
      {.name = "access-log",
       .value = flags::on(flags.access_log),
       .help = "one line per request, without its text",
       .aliases = {"--enable-log-requests"}},
  };
}

}  // namespace pagoda
