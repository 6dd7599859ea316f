// The flags of the server.
#include "cli/flags/engine_flag_table.h"
#include "cli/flags/flag_limits.h"
#include "cli/flags/flag_values.h"

namespace pagoda {
namespace {

constexpr std::int64_t kLeastBytes = 1024, kMostBytes = std::int64_t{1} << 40;

// Accepts a JSON list, as in vLLM, and a comma-separated list.
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
       .help = "address to listen on; 0.0.0.0: all interfaces",
       .default_text = flags.host},
      {.name = "port",
       .value = flags::int32(flags.port, 0, 65535),
       .help = "port to listen on; 0: any free port",
       .details = "port to listen on; 0: any free port, printed at start"},
      {.name = "uds",
       .value = flags::text(flags.uds, "PATH"),
       .help = "Unix socket to listen on instead of --host and --port"},
      {.name = "admin-socket",
       .value = flags::text(flags.admin_socket, "PATH"),
       .help = "additional Unix socket (mode 0600) for administration without an API key"},
      {.name = "ssl-certfile",
       .value = flags::text(flags.ssl_certfile, "FILE"),
       .help = "TLS certificate and chain in PEM; enables HTTPS (TLS 1.2 and 1.3)",
       .details = "TLS certificate and chain in PEM; enables HTTPS (TLS 1.2 and 1.3). SIGHUP reloads the "
                  "files; open connections continue",
       .aliases = {"--ssl-cert-file"}},
      {.name = "ssl-keyfile",
       .value = flags::text(flags.ssl_keyfile, "FILE"),
       .help = "private key of the certificate in PEM, without a passphrase",
       .default_text = "in the certificate's file",
       .aliases = {"--ssl-key-file"}},
      {.name = "ssl-ca-certs",
       .value = flags::text(flags.ssl_ca_certs, "FILE"),
       .help = "CA certificates in PEM, against which client certificates are verified"},
      {.name = "ssl-cert-reqs",
       .value = flags::int32(flags.ssl_cert_reqs, 0, 2),
       .help = "client certificates: 0 not requested, 1 optional, 2 required"},
      {.name = "api",
       .value = list(flags.apis),
       .help = "APIs to serve, separated by commas: openai, responses, anthropic, ollama, ...",
       .details = "APIs to serve, separated by commas: `openai`, `responses`, `anthropic`, `ollama`, "
                  "`lmstudio`, `llamacpp`, `tgi`, `pooling`",
       .default_text = "all"},
      {.name = "api-key",
       .value = flags::several(flags.api_keys, "KEY"),
       .help = "API key that clients must send; one or several [env PAGODA_API_KEY]",
       .details = "API key that clients must send, as `Authorization: Bearer KEY`; takes all words up to the "
                  "next flag. A single key has every role; of several, each has the role user. Keys are "
                  "hidden from `ps`; PAGODA_API_KEY is safer still",
       .secret = true},
      {.name = "api-key-file",
       .value = flags::text(flags.api_key_file, "FILE"),
       .help = "YAML file of API keys with roles and limits, as `pagoda key new` writes it",
       .details = "YAML file of API keys with roles and limits, as `pagoda key new` writes it; reloaded when "
                  "it changes and on SIGHUP ([operations](operations.md#keys-and-roles))"},
      {.name = "isolate-prefix-cache",
       .value = isolate,
       .help = "give each API key its own prefix cache",
       .default_text = "on with several keys"},
      {.name = "allowed-origins",
       .value = list(flags.allowed_origins),
       .help = "CORS: allowed origins, separated by commas, or *",
       .details = "CORS: allowed origins, separated by commas, or `*`"},
      {.name = "allowed-hosts",
       .value = list(flags.allowed_hosts),
       .help = "Host headers accepted on a loopback address, separated by commas, or *",
       .details = "Host headers accepted on a loopback address in addition to the loopback names, separated "
                  "by commas; `*`: any"},
      {.name = "trust-request-chat-template",
       .value = flags::on(flags.trust_request_chat_template),
       .help = "allow chat requests to bring their own chat_template",
       .details = "allow chat requests to bring their own `chat_template` in place of the model's"},
      {.name = "return-tokens-as-token-ids",
       .value = flags::on_off(flags.return_tokens_as_token_ids),
       .help = "show tokens of log-probabilities as token_id:N in answers to requests that do not choose"},
      {.name = "metrics-prefix",
       .value = flags::choice(flags.metrics_prefix, {"vllm", "pagoda"}),
       .help = "prefix of vLLM's metrics in /metrics; the others always begin with pagoda:"},
      {.name = "max-body-bytes",
       .value = flags::int64(flags.max_body_bytes, kLeastBytes, kMostBytes),
       .help = "size limit of a request body; larger ones get 413"},
      {.name = "max-answer-memory",
       .value = flags::int64(flags.max_answer_memory, kLeastBytes, kMostBytes),
       .help = "memory for answers in progress, in bytes; requests beyond it get 429",
       .details = "memory for answers that are being generated and sent, in bytes, as predicted when a "
                  "request arrives; requests beyond it get 429"},
      {.name = "response-store-bytes",
       .value = flags::int64(flags.response_store_bytes, 0, kMostBytes),
       .help = "memory for answers stored by /v1/responses; 0: none are stored",
       .details = "memory for answers stored by `/v1/responses`; the least recently used are evicted first; "
                  "0: none are stored"},
      {.name = "response-store-dir",
       .value = flags::text(flags.response_store_dir, "DIR"),
       .help = "folder where stored answers survive a restart",
       .details = "folder for stored answers, one file each, so that they survive a restart; created if "
                  "missing; without it they are kept in memory"},
      {.name = "max-header-bytes",
       .value = flags::int64(flags.max_header_bytes, kLeastBytes, kMostBytes),
       .help = "size limit of the request headers; larger ones get 431"},
      {.name = "max-connections",
       .value = flags::int32(flags.max_connections, 1),
       .help = "maximum number of open connections; further ones get 503"},
      {.name = "io-threads",
       .value = flags::int32(flags.io_threads, 0, 64),
       .help = "number of threads for network I/O and detokenization",
       .default_text = "one per eight cores, at most four"},
      seconds("header-timeout", flags.header_timeout_s, 0.1, "time limit for receiving the request headers",
              "time limit for receiving the request headers; then 408"),
      seconds("body-timeout", flags.body_timeout_s, 0.1, "longest pause while receiving a request body",
              "longest pause while receiving a request body; then 408"),
      seconds("write-timeout", flags.write_timeout_s, 0.1, "longest pause of a client that reads nothing",
              "longest pause of a client that reads nothing; then its connection is closed"),
      seconds("keep-alive-timeout", flags.keep_alive_timeout_s, 0.1,
              "time after which idle connections are closed"),
      seconds("shutdown-timeout", flags.shutdown_timeout_s, 0,
              "time for running requests to finish after SIGTERM",
              "time for running requests to finish after SIGTERM or SIGINT; a second signal ends the server "
              "at once"),
      {.name = "root-path",
       .value = flags::parsed("PATH", store_root),
       .help = "URL path at which a proxy serves this server, such as /models/small",
       .details = "URL path at which a proxy serves this server, such as `/models/small`: requests may come "
                  "with it or without, and /openapi.json includes it",
       .aliases = {"--api-prefix"}},
      {.name = "ui",
       .value = flags::on_off(flags.page),
       .help = "serve the web page at /: chat, and a live view of the engine",
       .aliases = {"--webui"}},
      {.name = "otlp-traces-endpoint",
       .value = flags::text(flags.otlp_traces_endpoint, "URL"),
       .help = "OpenTelemetry collector that receives a span per request: http://HOST:4318/v1/traces",
       .details = "OpenTelemetry collector that receives a span per request, over HTTP in JSON "
                  "([operations](operations.md#traces)): `http://HOST:4318/v1/traces`"},
      {.name = "log-level",
       .value = flags::choice(flags.log_level, {"debug", "info", "warning", "error"}),
       .help = "verbosity of the log; SIGHUP rereads it from the --config file",
       .default_text = "PAGODA_LOGGING_LEVEL, else info"},
      {.name = "verbose",
       .value = {.shape = FlagValue::Shape::on, .store = store_verbose},
       .help = "same as --log-level debug (llama-server's name)",
       .aliases = {"-v", "--log-verbose"}},
      {.name = "log-format",
       .value = flags::choice(flags.log_format, {"text", "json"}),
       .help = "format of the log: text, as vLLM's, or one JSON object per line",
       .default_text = "text"},
      {.name = "sandbox",
       .value = flags::on_off(flags.sandbox),
       .help = "restrict the started server to its own files, without outgoing connections or other programs",
       .details = "restrict the server, once it has its flags, to its model, keys, certificates, caches and "
                  "the system's libraries, without outgoing connections or other programs (Landlock and "
                  "seccomp, as far as the kernel has them)"},
      {.name = "access-log",
       .value = flags::on(flags.access_log),
       .help = "log one line per request, without its text",
       .aliases = {"--enable-log-requests"}},
  };
}

}  // namespace pagoda
