#include "cli/flags/vllm_flags.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"

namespace pagoda {
namespace {

using Shape = FlagValue::Shape;

// Accepted whatever it says.
Flag ignored(std::string name, Shape shape, std::vector<std::string>& warnings) {
  const auto warn = [name, &warnings](const std::string&) {
    warnings.push_back(concat("--", name, " has no effect here"));
    return ok_status();
  };
  return {.name = name, .value = {.shape = shape, .type = "X", .store = warn}, .hidden = true};
}

Flag refused(std::string name, Shape shape, const char* why) {
  return {.name = std::move(name),
          .value = {.shape = shape,
                    .type = "X",
                    .store = [why](const std::string&) { return invalid_argument(why); }},
          .hidden = true};
}

// Accepted where its effect is what happens here anyway; any other value is refused.
Flag only(std::string name, std::vector<std::string> accepted, const char* why) {
  const auto check = [accepted = std::move(accepted), why](const std::string& value) {
    return std::find(accepted.begin(), accepted.end(), value) != accepted.end()
               ? ok_status()
               : invalid_argument(concat("'", value, "' cannot be had: ", why));
  };
  return {.name = std::move(name), .value = {.type = "X", .store = check}, .hidden = true};
}

// More than one of these would need other machines or devices.
Flag only_one(std::string name, std::vector<std::string> aliases) {
  const auto check = [](const std::string& value) {
    return value == "1" ? ok_status() : invalid_argument("only 1 is supported");
  };
  return {.name = std::move(name),
          .value = {.type = "N", .store = check},
          .aliases = std::move(aliases),
          .hidden = true};
}

}  // namespace

std::vector<Flag> vllm_flags(std::vector<std::string>& warnings) {
  std::vector<Flag> rows;
  for (const char* name : {"enforce-eager", "async-scheduling", "no-async-scheduling", "disable-log-requests",
                           "disable-uvicorn-access-log", "disable-custom-all-reduce",
                           "enable-prompt-tokens-details", "enable-request-id-headers", "use-tqdm-on-load"})
    rows.push_back(ignored(name, Shape::on, warnings));
  for (const char* name : {"gpu-memory-utilization", "cpu-offload-gb", "download-dir", "uvicorn-log-level",
                           "stream-interval", "max-seq-len-to-capture", "prefix-caching-hash-algo",
                           "max-loras", "max-lora-rank", "max-cpu-loras", "lora-dtype"})
    rows.push_back(ignored(name, Shape::one, warnings));
  rows.push_back(
      only("load-format", {"auto", "safetensors", "gguf"}, "weights are read as the file stores them"));
  rows.push_back(only("tokenizer-mode", {"auto", "hf"}, "the tokenizer is the one of the model's files"));
  rows.push_back(only("generation-config", {"auto"},
                      "generation_config.json beside the model is used; requests may say otherwise"));
  rows.push_back(only("yarn-ext-factor", {"-1", "-1.0", "1", "1.0"}, "yarn blends by the whole of its ramp"));
  rows.push_back(only("response-role", {"assistant"}, "answers are the assistant's"));
  rows.push_back(only("chat-template-content-format", {"auto"}, "the template says which form it wants"));
  rows.push_back(only_one("pipeline-parallel-size", {"--pp"}));
  rows.push_back(only_one("data-parallel-size", {"--dp"}));
  rows.push_back(only_one("nnodes", {}));
  rows.push_back(only_one("api-server-count", {}));
  rows.push_back(refused("trust-remote-code", Shape::on, "code from a model's folder is never run"));
  rows.push_back(refused("enable-lora", Shape::on, "LoRA adapters are not supported"));
  rows.push_back(
      refused("quantization", Shape::one, "weights are used as the file stores them; see --dtype"));
  rows.push_back(
      only("convert", {"auto"}, "what a model is turned into follows from --runner and its files"));
  return rows;
}

std::vector<Flag> vllm_bench_flags(std::vector<std::string>& warnings) {
  std::vector<Flag> rows;
  for (const char* name :
       {"trust-remote-code", "no-stream", "no-oversample", "disable-shuffle", "skip-chat-template"})
    rows.push_back(ignored(name, Shape::on, warnings));
  rows.push_back(only("tokenizer-mode", {"auto", "hf"}, "the tokenizer is the one of the model's files"));
  rows.push_back(refused("profile", Shape::on, "no profiler is driven"));
  rows.push_back(refused("insecure", Shape::on, "https is not supported; put a proxy in front"));
  rows.push_back(refused("lora-modules", Shape::several, "LoRA adapters are not supported"));
  return rows;
}

}  // namespace pagoda
