// The flags that select the model and how it is read.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "cli/flags/engine_flag_table.h"
#include "cli/flags/flag_limits.h"
#include "cli/flags/flag_values.h"
#include "cli/flags/parse_size.h"

namespace pagoda {
namespace {

std::vector<std::string> split_words(std::string_view text, char separator) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    if (end > begin) words.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

// Parses "PATH:SCALE".
Result<AdapterFlag> scaled_adapter(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  const char* const end = text.data() + text.size();
  AdapterFlag out{text.substr(0, colon)};
  if (colon == 0 || colon == text.npos) return invalid_argument(concat("'", text, "' is not PATH:SCALE"));
  const auto [at, error] = std::from_chars(text.data() + colon + 1, end, out.scale);
  if (error != std::errc() || at != end || !std::isfinite(out.scale) || std::abs(out.scale) > 1e6)
    return invalid_argument(concat("'", text, "' is not PATH:SCALE, with a number as SCALE"));
  return out;
}

}  // namespace

std::vector<Flag> model_flag_table(EngineFlags& flags) {
  const auto store_length = [&flags](const std::string& value) -> Status {
    if (value == "auto" || value == "-1") {
      flags.max_model_len = kMaxModelLenAuto;
      return ok_status();
    }
    const auto size = parse_size(value);
    if (size == 0) {  // as in llama-server: -c 0
      flags.max_model_len.reset();
      return ok_status();
    }
    if (!size || *size < 1 || *size > kMaxInt32)
      return invalid_argument(concat("'", value, "' is neither a number of tokens nor auto"));
    flags.max_model_len = static_cast<std::int32_t>(*size);
    return ok_status();
  };
  const auto store_seed = [&flags](std::int64_t seed) { flags.seed = static_cast<std::uint64_t>(seed); };
  const auto store_cache = [&flags](std::int64_t bytes) { flags.weight_cache_bytes = bytes; };
  const auto store_adapters = [&flags](const std::string& value) -> Status {
    for (const std::string& path : split_words(value, ',')) flags.adapters.push_back({path, 1});
    return ok_status();
  };
  const auto store_scaled_adapters = [&flags](const std::string& value) -> Status {
    for (const std::string& each : split_words(value, ',')) {
      PAGODA_ASSIGN_OR_RETURN(AdapterFlag adapter, scaled_adapter(each));
      flags.adapters.push_back(std::move(adapter));
    }
    return ok_status();
  };
  const auto pooling = [&flags](const std::string&) {
    flags.runner = "pooling";
    return ok_status();
  };
  const auto store_pooling = [&flags](const std::string& value) -> Status {
    if (value != "mean" && value != "cls" && value != "last")
      return invalid_argument("must be mean, cls or last");
    std::string type = value;
    std::ranges::transform(type, type.begin(), [](char c) { return static_cast<char>(c - 'a' + 'A'); });
    flags.pooler_config = concat(R"({"pooling_type":")", type, "\"}");
    return ok_status();
  };
  return {
      {.name = "model",
       .positional = "MODEL",
       .value = flags::text(flags.model, "PATH"),
       .help = "folder, .gguf file, or ORG/NAME[:TAG] on the hub, downloaded if missing",
       .default_text = "the default model",
       .aliases = {"-m", "--hf", "--hfr", "--hf-repo"}},
      {.name = "revision",
       .value = flags::text(flags.revision, "NAME"),
       .help = "branch, tag or commit of ORG/NAME on the hub",
       .default_text = "main"},
      {.name = "hf-token",
       .value = flags::text(flags.hf_token, "TOKEN"),
       .help = "access token for the hub, hidden from `ps` [env HF_TOKEN]",
       .aliases = {"--hft"},
       .secret = true},
      {.name = "tokenizer",
       .value = flags::text(flags.tokenizer, "PATH"),
       .help = "tokenizer to use: folder, tokenizer.json or .gguf",
       .default_text = "the model's own"},
      {.name = "hf-overrides",
       .value = flags::text(flags.hf_overrides, "JSON"),
       .help = "JSON object of config.json fields to override; classifier_from_token makes a reranker",
       .default_text = "none"},
      {.name = "override-generation-config",
       .value = flags::text(flags.override_generation_config, "JSON"),
       .help = "JSON object of sampling defaults to override: temperature, top_p, top_k, ...",
       .default_text = "none"},
      {.name = "generation-config",
       .value = flags::text(flags.generation_config, "auto|vllm|PATH"),
       .help = "source of sampling defaults: auto (the model), vllm (none), or a folder or file",
       .details = "source of sampling defaults. `auto`: the model's generation_config.json or GGUF metadata; "
                  "`vllm`: none, the API's own defaults apply; otherwise a generation_config.json, or a "
                  "folder that has one",
       .default_text = "auto"},
      {.name = "max-logprobs",
       .value = flags::int32(flags.max_logprobs, -1),
       .help =
           "maximum number of log-probabilities per token that a request may ask for; -1: vocabulary size"},
      {.name = "chat-template",
       .value = flags::text(flags.chat_template, "FILE"),
       .help = "Jinja chat template: a file, its text, chatml, or the name of one of the model's",
       .default_text = "the model's own",
       .aliases = {"--chat-template-file"}},
      {.name = "default-chat-template-kwargs",
       .value = flags::text(flags.default_chat_template_kwargs, "JSON"),
       .help = "default variables for the chat template: {\"enable_thinking\": false}",
       .details = "default variables for the chat template, such as `{\"enable_thinking\": false}`; a "
                  "request's own `chat_template_kwargs`, and fields with the same effect, take precedence",
       .default_text = "none",
       .aliases = {"--chat-template-kwargs"}},
      {.name = "runner",
       .value = flags::choice(flags.runner, {"auto", "generate", "pooling"}),
       .help = "task of the model: generate (text) or pooling (embeddings, scores); auto: from its files",
       .default_text = "auto"},
      {.name = "embeddings",
       .value = {.shape = FlagValue::Shape::on, .store = pooling},
       .help = "same as --runner pooling (llama-server's name)",
       .aliases = {"--embedding", "--reranking", "--rerank"}},
      {.name = "pooler-config",
       .value = flags::text(flags.pooler_config, "JSON"),
       .help = "pooler settings as JSON, in vLLM's words: pooling_type, use_activation",
       .default_text = "from the model's files",
       .aliases = {"--override-pooler-config"}},
      {.name = "pooling",
       .value = flags::parsed("mean|cls|last", store_pooling),
       .help = "pooling type, as pooling_type of --pooler-config (llama-server's name)"},
      {.name = "tool-call-parser",
       .value = flags::text(flags.tool_call_parser, "NAME"),
       .help = "tool call parser: a name from vLLM, auto (from the chat template) or none",
       .details = "tool call parser: a name from vLLM, `auto` (chosen from the chat template) or `none` "
                  "([tools](tools.md))",
       .default_text = "auto"},
      {.name = "reasoning-parser",
       .value = flags::text(flags.reasoning_parser, "NAME"),
       .help = "reasoning parser: a name from vLLM, auto or none",
       .details = "reasoning parser: a name from vLLM, `auto` or `none`; reasoning is then returned in a "
                  "field of its own ([tools](tools.md))",
       .default_text = "none"},
      {.name = "enable-auto-tool-choice",
       .value = flags::on(flags.enable_auto_tool_choice),
       .help = "ignored (accepted for vLLM compatibility)",
       .hidden = true},
      {.name = "served-model-name",
       .value = flags::several(flags.served_model_names, "NAME"),
       .help = "model names in the API; the first one is reported; '*' matches any text",
       .details = "model names in the API; default: the name of the file or folder. The first is reported, "
                  "all are accepted. A name with `*`, which matches any text (`claude-*`), is accepted but "
                  "not listed. The flag takes several words and may be repeated; without MODEL, the last "
                  "word is taken as MODEL if it can be one",
       .aliases = {"-a", "--alias"}},
      {.name = "any-model-name",
       .value = flags::on(flags.any_model_name),
       .help = "accept any model name in requests"},
      {.name = "dtype",
       .value = flags::choice(flags.dtype, {"auto", "float32", "bfloat16", "float16", "int8"},
                              {{"half", "float16"}, {"float", "float32"}}),
       .help = "data type of the weights in memory",
       .details = "data type of the weights in memory. `auto`: quantised weights are computed in 8 bits, "
                  "4-bit ones are kept as 4 bits, and unquantised ones are bfloat16 (float32 without AVX2). "
                  "`float16` (or `half`) keeps float16 weights as they are, multiplies in float32, and uses "
                  "a float16 KV cache unless told otherwise. `int8` rounds unquantised weights to 8 bits, "
                  "with one scale per 32 of them"},
      {.name = "quantization",
       .value = flags::choice(flags.quantization,
                              {"auto-round", "awq", "awq_marlin", "bitnet", "bitsandbytes",
                               "compressed-tensors", "fbgemm_fp8", "fp8", "gguf", "gptq", "gptq_marlin",
                               "mlx", "modelopt", "modelopt_fp4", "modelopt_mixed", "moe_wna16", "mxfp4"}),
       .help = "refuse a model that is not quantised with this method",
       .details =
           "refuse a model that is not quantised with this method. A model's files define its method, and "
           "weights are used as they are stored: `pagoda quantize` makes a quantised model of one "
           "that is not",
       .default_text = "as the model is"},
      {.name = "quantize-activations",
       .value = flags::choice(flags.quantize_activations, {"auto", "on", "off"}),
       .help =
           "quantise activations as a quantised folder's scheme says (W8A8, FP8); auto: except in float32",
       .details = "quantise activations as a quantised folder's scheme says (W8A8, FP8: [quantised "
                  "folders](quantized-folders.md)). `auto`: unless `--dtype float32` is given"},
      {.name = "lora",
       .value = {.shape = FlagValue::Shape::repeated, .type = "PATH,...", .store = store_adapters},
       .help = "LoRA adapters to merge into the model: PEFT folders, or GGUF files for a GGUF model",
       .details =
           "LoRA adapters to merge into the model at start, one after the other: PEFT folders (or ORG/NAME, "
           "if cached), or GGUF files for a GGUF model ([adapters](model-notes.md#lora-adapters))",
       .default_text = "none"},
      {.name = "lora-scaled",
       .value = {.shape = FlagValue::Shape::repeated,
                 .type = "PATH:SCALE,...",
                 .store = store_scaled_adapters},
       .help = "LoRA adapters to merge into the model, each multiplied by its SCALE",
       .default_text = "none"},
      {.name = "weight-cache",
       .value = flags::on_off(flags.weight_cache),
       .help = "keep packed weights on disk and map them from there at later starts",
       .details = "keep packed weights on disk and map them from there at later starts ([weight "
                  "cache](weight-cache.md))"},
      {.name = "weight-cache-bytes",
       .value = flags::integer(1, kMaxInt64, store_cache),
       .help = "size limit of the packed-weight cache; least recently used entries are evicted",
       .default_text = "100GiB"},
      {.name = "max-model-len",
       .value = flags::parsed("N", store_length),
       .help = "context length in tokens, prompt and output (8k); auto: what fits the KV cache",
       .details = "context length in tokens, prompt and output together; `auto` or -1: what fits the KV "
                  "cache; 0: the model's own",
       .default_text = "the model's own",
       .aliases = {"-c", "--ctx-size"}},
      {.name = "config",
       .value = flags::text(flags.config, "FILE"),
       .help = "YAML file of flags; the command line and the environment take precedence",
       .details = "YAML file of flags by name, see [above](#a-file-of-flags)"},
      {.name = "seed",
       .value = flags::integer(0, kMaxInt64, store_seed),
       .help = "random seed of requests that set none",
       .default_text = "0",
       .aliases = {"-s"}},
  };
}

}  // namespace pagoda
