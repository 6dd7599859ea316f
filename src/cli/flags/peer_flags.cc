#include "cli/flags/peer_flags.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"

namespace pagoda {
namespace {

using Peer = PeerFlag::Peer;
using Rule = PeerFlag::Rule;
using Shape = FlagValue::Shape;

constexpr std::string_view kNoPython = "the server runs no Python code";
constexpr std::string_view kOneDevice = "only 1 is supported; see --tensor-parallel-size";
constexpr std::string_view kPerRequest = "set it in each request instead";
constexpr std::string_view kNoImages = "images and audio are not supported";
constexpr std::string_view kDrafts =
    "see --speculative-config '{\"model\": PATH, \"num_speculative_tokens\": 5}'";
constexpr std::string_view kThinking =
    "see thinking_token_budget of a request, and --default-chat-template-kwargs '{\"enable_thinking\": "
    "false}'";
constexpr std::string_view kOneModel = "a server has one model; pagoda ps lists the servers";
constexpr std::string_view kOneServer = "a server runs all engines of --data-parallel-size itself";

constexpr PeerFlag kTable[] = {
    // vLLM: speed, memory and startup
    {Peer::vllm, "cpu-offload-gb", Shape::one, Rule::of_cpu, "all weights stay on the device"},
    {Peer::vllm, "kv-sharing-fast-prefill", Shape::on_off},
    {Peer::vllm, "prefix-caching-hash-algo", Shape::one},
    {Peer::vllm, "calculate-kv-scales", Shape::on_off, Rule::of_cpu,
     "scales of an fp8 cache are the folder's"},
    {Peer::vllm, "mamba-block-size", Shape::one},
    {Peer::vllm, "mamba-cache-mode", Shape::one},
    {Peer::vllm, "max-seq-len-to-capture", Shape::one},
    {Peer::vllm, "cudagraph-capture-sizes", Shape::several},
    {Peer::vllm, "max-cudagraph-capture-size", Shape::one},
    {Peer::vllm, "compilation-config O", Shape::maybe},
    {Peer::vllm, "optimization-level", Shape::one},
    {Peer::vllm, "performance-mode", Shape::one},
    {Peer::vllm, "additional-config", Shape::one},
    {Peer::vllm, "attention-backend", Shape::one},
    {Peer::vllm, "attention-config", Shape::one},
    {Peer::vllm, "kernel-config", Shape::one},
    {Peer::vllm, "moe-backend", Shape::one},
    {Peer::vllm, "all2all-backend", Shape::one},
    {Peer::vllm, "disable-cascade-attn", Shape::on_off},
    {Peer::vllm, "disable-hybrid-kv-cache-manager", Shape::on_off},
    {Peer::vllm, "disable-frontend-multiprocessing", Shape::on_off},
    {Peer::vllm, "max-parallel-loading-workers", Shape::one},
    {Peer::vllm, "distributed-executor-backend", Shape::one},
    {Peer::vllm, "ray-workers-use-nsight", Shape::on_off},
    {Peer::vllm, "enable-sleep-mode", Shape::on_off},
    {Peer::vllm, "enable-expert-parallel", Shape::on_off},
    {Peer::vllm, "expert-placement-strategy", Shape::one},
    {Peer::vllm, "enable-eplb", Shape::on_off},
    {Peer::vllm, "eplb-config", Shape::one},
    {Peer::vllm, "enable-dbo", Shape::on_off},
    {Peer::vllm, "dbo-decode-token-threshold", Shape::one},
    {Peer::vllm, "dbo-prefill-token-threshold", Shape::one},
    {Peer::vllm, "node-rank", Shape::one},
    {Peer::vllm, "master-addr", Shape::one},
    {Peer::vllm, "master-port", Shape::one},
    {Peer::vllm, "data-parallel-backend", Shape::one},
    {Peer::vllm, "data-parallel-size-local", Shape::one},
    {Peer::vllm, "data-parallel-address", Shape::one},
    {Peer::vllm, "data-parallel-rpc-port", Shape::one},
    {Peer::vllm, "api-server-count", Shape::one},
    {Peer::vllm, "max-num-partial-prefills", Shape::one},
    {Peer::vllm, "max-long-partial-prefills", Shape::one},
    {Peer::vllm, "long-prefill-token-threshold", Shape::one},
    {Peer::vllm, "num-scheduler-steps", Shape::one},
    {Peer::vllm, "scheduler-delay-factor", Shape::one},
    {Peer::vllm, "num-lookahead-slots", Shape::one},
    {Peer::vllm, "use-v2-block-manager", Shape::on_off},
    {Peer::vllm, "disable-async-output-proc", Shape::on_off},
    {Peer::vllm, "cuda-graph-sizes", Shape::several},
    {Peer::vllm, "enable-flashinfer-autotune", Shape::on_off},
    {Peer::vllm, "num-redundant-experts", Shape::one},
    {Peer::vllm, "numa-bind", Shape::on_off},
    {Peer::vllm, "distributed-timeout-seconds", Shape::one},
    {Peer::vllm, "profiler-config", Shape::one},
    {Peer::vllm, "stream-interval", Shape::one},
    // vLLM: loading
    {Peer::vllm, "trust-remote-code", Shape::on_off},
    {Peer::vllm, "code-revision", Shape::one},
    {Peer::vllm, "download-dir", Shape::one},
    {Peer::vllm, "ignore-patterns", Shape::several},
    {Peer::vllm, "model-loader-extra-config", Shape::one},
    {Peer::vllm, "safetensors-load-strategy", Shape::one},
    {Peer::vllm, "pt-load-map-location", Shape::one},
    {Peer::vllm, "use-tqdm-on-load", Shape::on_off},
    {Peer::vllm, "load-format", Shape::one, Rule::only, "weights are read as stored",
     "auto safetensors gguf hf mistral fastsafetensors runai_streamer bitsandbytes"},
    {Peer::vllm, "config-format", Shape::one, Rule::only, "config.json, params.json or GGUF metadata is read",
     "auto hf mistral"},
    {Peer::vllm, "tokenizer-mode", Shape::one, Rule::only, "the tokenizer comes from the model's files",
     "auto hf mistral slow"},
    {Peer::vllm, "model-impl", Shape::one, Rule::only, "there is one implementation", "auto vllm"},
    {Peer::vllm, "convert", Shape::one, Rule::only, "--runner and the model's files decide", "auto"},
    {Peer::vllm, "task", Shape::one, Rule::only, "use --runner pooling", "auto generate"},
    {Peer::vllm, "tokenizer-revision", Shape::one, Rule::refused, "see --revision, or --tokenizer FOLDER"},
    {Peer::vllm, "skip-tokenizer-init", Shape::on_off, Rule::refused, "the tokenizer is always needed"},
    {Peer::vllm, "hf-config-path", Shape::one, Rule::refused, "see --hf-overrides"},
    {Peer::vllm, "disable-sliding-window", Shape::on_off, Rule::refused, "it would change the answers"},
    {Peer::vllm, "mamba-cache-dtype", Shape::one, Rule::only, "recurrent states are float32", "auto float32"},
    {Peer::vllm, "mamba-ssm-cache-dtype", Shape::one, Rule::only, "recurrent states are float32",
     "auto float32"},
    // vLLM: images and sound
    {Peer::vllm, "language-model-only", Shape::on_off},
    {Peer::vllm, "limit-mm-per-prompt", Shape::one},
    {Peer::vllm, "media-io-kwargs", Shape::one},
    {Peer::vllm, "mm-processor-kwargs", Shape::one},
    {Peer::vllm, "mm-processor-cache-gb", Shape::one},
    {Peer::vllm, "mm-processor-cache-type", Shape::one},
    {Peer::vllm, "mm-encoder-tp-mode", Shape::one},
    {Peer::vllm, "mm-encoder-attn-backend", Shape::one},
    {Peer::vllm, "disable-mm-preprocessor-cache", Shape::on_off},
    {Peer::vllm, "disable-chunked-mm-input", Shape::on_off},
    {Peer::vllm, "skip-mm-profiling", Shape::on_off},
    {Peer::vllm, "interleave-mm-strings", Shape::on_off},
    {Peer::vllm, "video-pruning-rate", Shape::one},
    {Peer::vllm, "allowed-local-media-path", Shape::one},
    {Peer::vllm, "allowed-media-domains", Shape::several},
    // vLLM: the server, its logs and metrics
    {Peer::vllm, "uvicorn-log-level", Shape::one},
    {Peer::vllm, "disable-uvicorn-access-log", Shape::on_off},
    {Peer::vllm, "disable-access-log-for-endpoints", Shape::one},
    {Peer::vllm, "disable-log-requests", Shape::on_off},
    {Peer::vllm, "disable-fastapi-docs", Shape::on_off},
    {Peer::vllm, "log-config-file", Shape::one},
    {Peer::vllm, "log-error-stack", Shape::on_off},
    {Peer::vllm, "max-log-len", Shape::one},
    {Peer::vllm, "aggregate-engine-logging", Shape::on_off},
    {Peer::vllm, "show-hidden-metrics-for-version", Shape::one},
    {Peer::vllm, "collect-detailed-traces", Shape::several},
    {Peer::vllm, "kv-cache-metrics", Shape::on_off},
    {Peer::vllm, "kv-cache-metrics-sample", Shape::one},
    {Peer::vllm, "cudagraph-metrics", Shape::on_off},
    {Peer::vllm, "enable-mfu-metrics", Shape::on_off},
    {Peer::vllm, "enable-layerwise-nvtx-tracing", Shape::on_off},
    {Peer::vllm, "enable-server-load-tracking", Shape::on_off},
    {Peer::vllm, "enable-prompt-tokens-details", Shape::on_off},
    {Peer::vllm, "enable-request-id-headers", Shape::on_off},
    {Peer::vllm, "enable-tokenizer-info-endpoint", Shape::on_off},
    {Peer::vllm, "enable-ssl-refresh", Shape::on_off},
    {Peer::vllm, "h11-max-incomplete-event-size", Shape::one},
    {Peer::vllm, "h11-max-header-count", Shape::one},
    {Peer::vllm, "allow-credentials", Shape::on_off},
    {Peer::vllm, "allowed-methods", Shape::one, Rule::only, "CORS allows each route's own methods",
     "* [\"*\"]"},
    {Peer::vllm, "allowed-headers", Shape::one, Rule::only, "CORS allows every header", "* [\"*\"]"},
    {Peer::vllm, "ssl-ciphers", Shape::one, Rule::refused, "TLS 1.2 and 1.3 use OpenSSL's default ciphers"},
    {Peer::vllm, "response-role", Shape::one, Rule::only, "answers always have the role assistant",
     "assistant"},
    {Peer::vllm, "chat-template-content-format", Shape::one, Rule::only,
     "the form follows from the chat template", "auto"},
    {Peer::vllm, "logprobs-mode", Shape::one, Rule::only,
     "log-probabilities are computed before sampling parameters apply", "raw_logprobs"},
    {Peer::vllm, "guided-decoding-backend", Shape::one, Rule::only, "XGrammar is the only backend",
     "auto xgrammar"},
    {Peer::vllm, "guided-decoding-disable-fallback", Shape::on_off},
    {Peer::vllm, "structured-outputs-config", Shape::one},
    {Peer::vllm, "enable-reasoning", Shape::on_off},
    {Peer::vllm, "enable-force-include-usage", Shape::on_off, Rule::refused, kPerRequest},
    {Peer::vllm, "exclude-tools-when-tool-choice-none", Shape::on_off, Rule::refused,
     "it would change the prompts"},
    {Peer::vllm, "enable-log-outputs", Shape::on_off, Rule::refused, "prompts and answers are never logged"},
    {Peer::vllm, "enable-prompt-embeds", Shape::on_off, Rule::refused, "a prompt is text or token ids"},
    {Peer::vllm, "max-num-queued-tokens", Shape::one, Rule::refused, "see --max-queue and --max-queue-time"},
    {Peer::vllm, "headless", Shape::on_off, Rule::refused, "a server always serves HTTP"},
    {Peer::vllm, "grpc", Shape::on_off, Rule::refused, "only HTTP is served"},
    {Peer::vllm, "middleware", Shape::repeated, Rule::refused, kNoPython},
    {Peer::vllm, "logits-processors", Shape::several, Rule::refused, kNoPython},
    {Peer::vllm, "io-processor-plugin", Shape::one, Rule::refused, kNoPython},
    {Peer::vllm, "tool-parser-plugin", Shape::one, Rule::refused, kNoPython},
    {Peer::vllm, "reasoning-parser-plugin", Shape::one, Rule::refused, kNoPython},
    {Peer::vllm, "scheduler-cls", Shape::one, Rule::refused, kNoPython},
    {Peer::vllm, "worker-cls", Shape::one, Rule::refused, kNoPython},
    {Peer::vllm, "worker-extension-cls", Shape::one, Rule::refused, kNoPython},
    {Peer::vllm, "tool-server", Shape::one, Rule::refused, "tools run in the client"},
    {Peer::vllm, "ec-transfer-config", Shape::one, Rule::refused, kNoImages},
    // vLLM: more machines, adapters
    {Peer::vllm, "pipeline-parallel-size pp", Shape::one, Rule::only, kOneDevice, "1"},
    {Peer::vllm, "decode-context-parallel-size dcp", Shape::one, Rule::only, kOneDevice, "1"},
    {Peer::vllm, "prefill-context-parallel-size pcp", Shape::one, Rule::only, kOneDevice, "1"},
    {Peer::vllm, "nnodes", Shape::one, Rule::only, "only 1 is supported; use mpirun for several machines",
     "1"},
    {Peer::vllm, "data-parallel-rank dpn", Shape::one, Rule::only, kOneServer, "0"},
    {Peer::vllm, "data-parallel-start-rank dpr", Shape::one, Rule::only, kOneServer, "0"},
    {Peer::vllm, "data-parallel-hybrid-lb dph", Shape::on_off, Rule::refused, kOneServer},
    {Peer::vllm, "data-parallel-external-lb dpe", Shape::on_off, Rule::refused, kOneServer},
    {Peer::vllm, "speculative-model", Shape::one, Rule::refused, kDrafts},
    {Peer::vllm, "num-speculative-tokens", Shape::one, Rule::refused, kDrafts},
    {Peer::vllm, "lora-dtype", Shape::one},
    {Peer::vllm, "lora-extra-vocab-size", Shape::one},
    {Peer::vllm, "fully-sharded-loras", Shape::on_off},
    // llama-server: speed, memory and startup
    {Peer::llama_server, "n-gpu-layers gpu-layers ngl", Shape::one},
    {Peer::llama_server, "flash-attn fa", Shape::maybe},
    {Peer::llama_server, "mlock", Shape::on},
    {Peer::llama_server, "mmap", Shape::on_off},
    {Peer::llama_server, "direct-io dio", Shape::on_off},
    {Peer::llama_server, "cont-batching cb", Shape::on_off},
    {Peer::llama_server, "ubatch-size ub", Shape::one},
    {Peer::llama_server, "threads-batch tb", Shape::one},
    {Peer::llama_server, "threads-http", Shape::one},
    {Peer::llama_server, "numa", Shape::one},
    {Peer::llama_server, "prio", Shape::one},
    {Peer::llama_server, "prio-batch", Shape::one},
    {Peer::llama_server, "poll", Shape::one},
    {Peer::llama_server, "cpu-mask C", Shape::one},
    {Peer::llama_server, "cpu-range Cr", Shape::one},
    {Peer::llama_server, "cpu-strict", Shape::one},
    {Peer::llama_server, "split-mode sm", Shape::one},
    {Peer::llama_server, "tensor-split ts", Shape::one},
    {Peer::llama_server, "main-gpu mg", Shape::one},
    {Peer::llama_server, "override-tensor ot", Shape::one},
    {Peer::llama_server, "cpu-moe cmoe", Shape::on},
    {Peer::llama_server, "n-cpu-moe ncmoe", Shape::one},
    {Peer::llama_server, "kv-offload kvo", Shape::on_off},
    {Peer::llama_server, "nkvo", Shape::on},
    {Peer::llama_server, "repack", Shape::on_off},
    {Peer::llama_server, "op-offload", Shape::on_off},
    {Peer::llama_server, "swa-full", Shape::on},
    {Peer::llama_server, "kv-unified kvu", Shape::on_off},
    {Peer::llama_server, "ctx-checkpoints swa-checkpoints", Shape::one},
    {Peer::llama_server, "cache-idle-slots", Shape::on_off},
    {Peer::llama_server, "defrag-thold dt", Shape::one},
    {Peer::llama_server, "backend-sampling bs", Shape::on},
    {Peer::llama_server, "lookup-cache-static lcs", Shape::one},
    {Peer::llama_server, "lookup-cache-dynamic lcd", Shape::one},
    {Peer::llama_server, "cache-ram cram", Shape::one, Rule::only, "use --kv-offloading-size, in GiB", "0"},
    {Peer::llama_server, "cache-reuse", Shape::one},
    {Peer::llama_server, "cache-prompt", Shape::on_off},
    {Peer::llama_server, "slot-prompt-similarity sps", Shape::one},
    {Peer::llama_server, "fit", Shape::one},
    {Peer::llama_server, "fit-ctx fitc", Shape::one},
    {Peer::llama_server, "fit-target fitt", Shape::one},
    {Peer::llama_server, "warmup", Shape::on_off},
    {Peer::llama_server, "check-tensors", Shape::on},
    {Peer::llama_server, "timeout to", Shape::one},
    // llama-server: routes and logs
    {Peer::llama_server, "metrics", Shape::on},
    {Peer::llama_server, "slots", Shape::on_off},
    {Peer::llama_server, "props", Shape::on},
    {Peer::llama_server, "perf", Shape::on_off},
    {Peer::llama_server, "log-disable", Shape::on},
    {Peer::llama_server, "log-file", Shape::one},
    {Peer::llama_server, "log-colors", Shape::maybe},
    {Peer::llama_server, "log-prefix", Shape::on},
    {Peer::llama_server, "log-timestamps", Shape::on},
    {Peer::llama_server, "verbosity lv", Shape::one},
    {Peer::llama_server, "verbose-prompt", Shape::on},
    {Peer::llama_server, "tags", Shape::one},
    // llama-server: answers
    {Peer::llama_server, "jinja", Shape::on},
    {Peer::llama_server, "no-jinja", Shape::on, Rule::refused, "chat templates are always Jinja"},
    {Peer::llama_server, "no-context-shift", Shape::on},
    {Peer::llama_server, "context-shift", Shape::on, Rule::refused,
     "requests longer than the context are refused"},
    {Peer::llama_server, "keep", Shape::one, Rule::refused, "requests longer than the context are refused"},
    {Peer::llama_server, "cache-type-k ctk", Shape::one, Rule::refused, "see --kv-cache-dtype"},
    {Peer::llama_server, "cache-type-v ctv", Shape::one, Rule::refused, "see --kv-cache-dtype"},
    {Peer::llama_server, "reasoning-format", Shape::one, Rule::only, "see --reasoning-parser",
     "auto deepseek"},
    {Peer::llama_server, "reasoning rea", Shape::one, Rule::only, kThinking, "auto on"},
    {Peer::llama_server, "reasoning-budget", Shape::one, Rule::only, kThinking, "-1"},
    {Peer::llama_server, "skip-chat-parsing", Shape::on_off, Rule::refused, "see --tool-call-parser"},
    {Peer::llama_server, "logit-bias l", Shape::repeated, Rule::refused, kPerRequest},
    {Peer::llama_server, "ignore-eos", Shape::on, Rule::refused, kPerRequest},
    {Peer::llama_server, "json-schema j", Shape::one, Rule::refused, kPerRequest},
    {Peer::llama_server, "json-schema-file jf", Shape::one, Rule::refused, kPerRequest},
    {Peer::llama_server, "typical typical-p", Shape::one, Rule::only, "requests ask for it (typical_p)",
     "1 1.0"},
    {Peer::llama_server, "top-nsigma top-n-sigma", Shape::one, Rule::only, "top-n-sigma is not supported",
     "-1 -1.0"},
    {Peer::llama_server, "xtc-probability", Shape::one, Rule::only, "XTC is not supported", "0 0.0"},
    {Peer::llama_server, "dry-multiplier", Shape::one, Rule::only, "DRY is not supported", "0 0.0"},
    {Peer::llama_server, "dynatemp-range", Shape::one, Rule::only, "dynamic temperature is not supported",
     "0 0.0"},
    {Peer::llama_server, "yarn-ext-factor", Shape::one, Rule::only, "the YaRN ramp is always applied in full",
     "-1 -1.0 1 1.0"},
    {Peer::llama_server, "presence-penalty", Shape::one, Rule::refused, kPerRequest},
    {Peer::llama_server, "frequency-penalty", Shape::one, Rule::refused, kPerRequest},
    {Peer::llama_server, "repeat-last-n", Shape::one, Rule::refused, "penalties apply to the whole context"},
    {Peer::llama_server, "samplers", Shape::one, Rule::refused, "samplers are applied in vLLM's order"},
    {Peer::llama_server, "mirostat", Shape::one, Rule::only, "Mirostat is not supported", "0"},
    {Peer::llama_server, "grammar-file", Shape::one, Rule::refused, kPerRequest},
    {Peer::llama_server, "spm-infill", Shape::on, Rule::refused,
     "fill-in-the-middle uses the model's own order"},
    {Peer::llama_server, "mmproj mm", Shape::one, Rule::refused, kNoImages},
    {Peer::llama_server, "no-mmproj", Shape::on},
    {Peer::llama_server, "model-draft md", Shape::one, Rule::refused, kDrafts},
    {Peer::llama_server, "draft-max draft", Shape::one, Rule::refused, kDrafts},
    {Peer::llama_server, "draft-min draft-n-min", Shape::one, Rule::refused, kDrafts},
    {Peer::llama_server, "draft-p-min", Shape::one, Rule::refused, kDrafts},
    {Peer::llama_server, "spec-type", Shape::one, Rule::refused, kDrafts},
    {Peer::llama_server, "gpu-layers-draft ngld", Shape::one, Rule::refused, kDrafts},
    {Peer::llama_server, "models-dir", Shape::one, Rule::refused, kOneModel},
    {Peer::llama_server, "models-preset", Shape::one, Rule::refused, kOneModel},
    {Peer::llama_server, "models-max", Shape::one, Rule::refused, kOneModel},
    {Peer::llama_server, "list-devices", Shape::on, Rule::refused, "see pagoda doctor"},
    {Peer::llama_server, "hf-file hff", Shape::one, Rule::refused, "see --model ORG/NAME:TAG"},
    {Peer::llama_server, "model-url mu", Shape::one, Rule::refused, "see --model ORG/NAME"},
    {Peer::llama_server, "offline", Shape::on, Rule::refused, "set HF_HUB_OFFLINE=1"},
    {Peer::llama_server, "slot-save-path", Shape::one, Rule::refused, "slots cannot be saved to files"},
    {Peer::llama_server, "path", Shape::one, Rule::refused, "the server serves no files"},
    {Peer::llama_server, "rpc", Shape::one, Rule::refused, "see --tensor-parallel-size"},
};

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

std::function<Status(const std::string&)> store_of(const PeerFlag& flag, const std::string& name,
                                                   std::vector<std::string>& ignored) {
  const bool on_off = flag.shape == Shape::on_off;
  if (flag.rule == Rule::refused)
    return [why = flag.why, on_off](const std::string& value) {
      return on_off && value == "false" ? ok_status() : invalid_argument(std::string(why));
    };
  if (flag.rule == Rule::only)
    return [accepted = words_of(flag.accepted), why = flag.why](const std::string& value) {
      return std::ranges::count(accepted, value) > 0
                 ? ok_status()
                 : invalid_argument(concat("'", value, "' is not supported: ", why));
    };
  return [name, on_off, of_cpu = flag.rule == Rule::of_cpu, &ignored](const std::string& value) {
    // The peers' default value requests nothing.
    if (of_cpu && (value == "0" || value == "0.0" || value == "false")) return ok_status();
    std::string spelled = (on_off && value == "false" ? "--no-" : "--") + name;
    if (std::ranges::count(ignored, spelled) == 0) ignored.push_back(std::move(spelled));
    return ok_status();
  };
}

Flag row_of(const PeerFlag& flag, std::vector<std::string>& ignored) {
  std::vector<std::string> names = words_of(flag.names);
  Flag row{.name = names.front(),
           .value = {.shape = flag.shape, .store = store_of(flag, names.front(), ignored)},
           .hidden = true};
  if (row.value.takes_value()) row.value.type = "X";
  for (std::size_t i = 1; i < names.size(); ++i)
    row.aliases.push_back((names[i].size() == 1 ? "-" : "--") + names[i]);
  return row;
}

}  // namespace

std::span<const PeerFlag> peer_flag_table() { return kTable; }

std::vector<Flag> peer_flags(std::vector<std::string>& ignored) {
  std::vector<Flag> rows;
  for (const PeerFlag& flag : kTable) rows.push_back(row_of(flag, ignored));
  return rows;
}

std::vector<Flag> vllm_bench_flags(std::vector<std::string>& ignored) {
  constexpr PeerFlag kBench[] = {
      {Peer::vllm, "trust-remote-code", Shape::on},
      {Peer::vllm, "no-stream", Shape::on},
      {Peer::vllm, "no-oversample", Shape::on},
      {Peer::vllm, "disable-shuffle", Shape::on},
      {Peer::vllm, "skip-chat-template", Shape::on},
      {Peer::vllm, "tokenizer-mode", Shape::one, Rule::only, "the tokenizer is the one of the model's files",
       "auto hf"},
      {Peer::vllm, "profile", Shape::on, Rule::refused, "profiling is not supported"},
      {Peer::vllm, "insecure", Shape::on, Rule::refused, "https is not supported; put a proxy in front"},
      {Peer::vllm, "lora-modules", Shape::several, Rule::refused,
       "a run measures one model: --model names the adapter"},
  };
  std::vector<Flag> rows;
  for (const PeerFlag& flag : kBench) rows.push_back(row_of(flag, ignored));
  return rows;
}

Status check_ignored_on_device(const std::vector<std::string>& ignored) {
  for (const PeerFlag& flag : kTable) {
    const std::string name = concat("--", words_of(flag.names).front());
    if (flag.rule == Rule::of_cpu && std::ranges::count(ignored, name) > 0)
      return invalid_argument(concat(name, ": ", flag.why));
  }
  return ok_status();
}

std::string ignored_flags_text(const std::vector<std::string>& ignored) {
  std::string text;
  for (const std::string& flag : ignored) text += (text.empty() ? "no effect here: " : ", ") + flag;
  return text;
}

}  // namespace pagoda
