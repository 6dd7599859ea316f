#include "cli/flags/vllm_flags.h"

#include "base/strings.h"
#include "cli/flags/flags.h"

namespace pagoda {
namespace {

// Without a value.
constexpr const char* kIgnoredSwitches[] = {
    "--enforce-eager",
    "--async-scheduling",
    "--no-async-scheduling",
    "--enable-auto-tool-choice",
    "--disable-log-requests",
    "--disable-uvicorn-access-log",
    "--disable-custom-all-reduce",
    "--enable-prompt-tokens-details",
    "--enable-request-id-headers",
    "--use-tqdm-on-load",
};

// With one value.
constexpr const char* kIgnoredOptions[] = {
    "--gpu-memory-utilization",
    "--cpu-offload-gb",
    "--load-format",
    "--tokenizer-mode",
    "--device",
    "--download-dir",
    "--uvicorn-log-level",
    "--generation-config",
    "--tool-call-parser",
    "--stream-interval",
    "--max-seq-len-to-capture",
    "--response-role",
    "--chat-template-content-format",
    "--prefix-caching-hash-algo",
};

// More than one of these would need other machines or devices.
constexpr const char* kOnlyOne[] = {
    "--pipeline-parallel-size,--pp",
    "--data-parallel-size,--dp",
    "--nnodes",
    "--api-server-count",
};

struct Refused {
  const char* name;
  const char* why;
};
constexpr Refused kRefusedSwitches[] = {
    {"--trust-remote-code", "code from a model's folder is never run"},
    {"--enable-lora", "LoRA adapters are not supported"},
};
constexpr Refused kRefusedOptions[] = {
    {"--quantization", "weights are used as the file stores them; see --dtype"},
    {"--ssl-keyfile", "TLS is not supported; put a proxy in front"},
    {"--ssl-certfile", "TLS is not supported; put a proxy in front"},
    {"--uds", "Unix sockets are not supported"},
    {"--config", "configuration files are not supported"},
    {"--override-generation-config", "give sampling parameters in the request"},
    {"--hf-overrides", "the model's configuration is used as it is"},
};

constexpr const char* kHidden = "";  // a group without a name is left out of --help

}  // namespace

void add_vllm_flags(CLI::App& app, std::vector<std::string>& warnings) {
  for (const std::string name : kIgnoredSwitches) {
    const auto warn = [name, &warnings](std::int64_t) { warnings.push_back(name + " has no effect here"); };
    app.add_flag_function(name, warn)->group(kHidden);
  }
  for (const std::string name : kIgnoredOptions) {
    const auto warn = [name, &warnings](const std::string&) {
      warnings.push_back(name + " has no effect here");
    };
    app.add_option_function<std::string>(name, warn)->group(kHidden);
  }
  for (const std::string names : kOnlyOne) {
    const auto check = [name = names.substr(0, names.find(','))](const std::string& value) {
      if (value != "1") throw CLI::ValidationError(name, "only 1 is supported");
    };
    app.add_option_function<std::string>(names, check)->group(kHidden);
  }
  for (const Refused& refused : kRefusedSwitches) {
    const auto refuse = [refused](std::int64_t) { throw CLI::ValidationError(refused.name, refused.why); };
    app.add_flag_function(refused.name, refuse)->group(kHidden);
  }
  for (const Refused& refused : kRefusedOptions) {
    const auto refuse = [refused](const std::string&) {
      throw CLI::ValidationError(refused.name, refused.why);
    };
    app.add_option_function<std::string>(refused.name, refuse)->group(kHidden);
  }
}

}  // namespace pagoda
