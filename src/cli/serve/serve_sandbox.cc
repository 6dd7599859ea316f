#include "cli/serve/serve_sandbox.h"

#include <filesystem>

#include "base/private_folder.h"
#include "base/strings.h"
#include "cli/assembly/default_model.h"
#include "cli/assembly/hub_paths.h"
#include "cli/assembly/runner_options.h"
#include "loader/model_files.h"

namespace pagoda {
namespace {

namespace fs = std::filesystem;

// A sanitizer's leak check traces its own process, and its symbolizer is another program.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define PAGODA_SANITIZED
#endif
#endif
#ifdef PAGODA_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// Returns the folder of a file, so that the file can be replaced.
std::string folder_of(const std::string& file) {
  std::error_code ignored;
  fs::path path = fs::absolute(file, ignored).parent_path();
  return path.empty() ? "/" : path.string();
}

// Adds the targets of a folder's links, down to one level of subfolders, because files in a hub cache are
// links.
void add_with_links(const fs::path& path, std::vector<std::string>& out) {
  std::error_code error;
  const auto add_file = [&out](const fs::path& file) {
    std::error_code unknown;
    const fs::path real = fs::canonical(file, unknown);
    if (unknown) return;
    out.push_back(real.string());
    out.push_back(real.parent_path().string());
  };
  if (!fs::is_directory(path, error)) {
    if (path.has_parent_path()) out.push_back(path.parent_path().string());
    return add_file(path);
  }
  out.push_back(path.string());
  for (fs::recursive_directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    constexpr int kMaxDepth = 2;
    if (entry.depth() >= kMaxDepth) entry.disable_recursion_pending();
    std::error_code unknown;
    if (entry->is_symlink(unknown)) add_file(entry->path());
  }
}

}  // namespace

SandboxRules sandbox_of(const EngineFlags& flags) {
  SandboxRules rules;
  // Libraries, name resolution, time zones, and the kernel's information about machine and process.
  rules.readable = {"/usr/lib",
                    "/usr/lib64",
                    "/usr/local/lib",
                    "/usr/local/ssl",
                    "/lib",
                    "/lib64",
                    "/etc/ld.so.cache",
                    "/etc/ssl",
                    "/usr/share/zoneinfo",
                    "/etc/localtime",
                    "/etc/hosts",
                    "/etc/host.conf",
                    "/etc/resolv.conf",
                    "/etc/nsswitch.conf",
                    "/etc/gai.conf",
                    "/proc",
                    "/sys",
                    "/dev/urandom"};
  std::error_code ignored;
  // A folder that does not exist when the sandbox is entered remains inaccessible.
  fs::create_directories(cache_directory(), ignored);
  rules.writable = {"/dev/null", "/dev/shm", cache_directory()};
  const HubPaths hub = hub_paths_from_environment();
  for (const std::string& path : hub.cache_dirs) rules.readable.push_back(path);
  if (const auto model = model_path(flags)) {
    add_with_links(*model, rules.readable);
    if (const auto files = find_model_files(*model, hub)) add_with_links(files->path, rules.readable);
  }
  if (const std::string& nccl = flags.emulated_device.nccl; !nccl.empty())
    add_with_links(nccl, rules.readable);
  for (const AdapterFlag& adapter : flags.adapters) add_with_links(adapter.path, rules.readable);
  for (const LoraModule& adapter : flags.lora.modules) add_with_links(adapter.path, rules.readable);
  if (flags.lora.enable && flags.lora.runtime_updating) rules.readable.emplace_back("/");
  const ServerFlags& server = flags.server;
  if (!flags.config.empty()) rules.readable.push_back(folder_of(flags.config));
  for (const std::string* path : {&flags.tokenizer, &flags.chat_template, &flags.prefix_file})
    if (!path->empty()) add_with_links(*path, rules.readable);
  for (const std::string* path :
       {&server.api_key_file, &server.ssl_certfile, &server.ssl_keyfile, &server.ssl_ca_certs}) {
    if (path->empty()) continue;
    rules.readable.push_back(folder_of(*path));
    add_with_links(*path, rules.readable);
  }
  for (const std::string* path : {&flags.record, &flags.poison_record, &server.uds, &server.admin_socket})
    if (!path->empty()) rules.writable.push_back(folder_of(*path));
  // Connections: spans go to their collector, and events to an endpoint that is not bound.
  rules.may_connect = !server.otlp_traces_endpoint.empty();
  if (rules.may_connect) rules.readable.push_back("/usr/share/ca-certificates");
  if (flags.kv_events.enabled) {
    rules.may_connect |= !is_bound(flags.kv_events.endpoint);
    for (const std::string* endpoint : {&flags.kv_events.endpoint, &flags.kv_events.replay_endpoint})
      if (constexpr std::string_view kFile = "ipc://"; endpoint->starts_with(kFile))
        rules.writable.push_back(folder_of(endpoint->substr(kFile.size())));
  }
  rules.may_connect |= flags.kv_transfer.fetches;
  if (const std::string& secret = flags.kv_transfer.secret_file; !secret.empty())
    add_with_links(secret, rules.readable);
  if (!flags.kv_disk.empty()) {
    (void)make_private_folder(flags.kv_disk, OthersMay::nothing);  // errors are reported when it is opened
    rules.writable.push_back(flags.kv_disk);
  }
  if (!server.response_store_dir.empty()) rules.writable.push_back(server.response_store_dir);
  return rules;
}

Result<std::string> enter_serve_sandbox(const EngineFlags& flags) {
  if (!flags.server.sandbox || kSanitized) return std::string("off");
  if (flags.mpi_local_size > 0) return std::string("off, under mpirun");
  if (flags.device == "cuda") return std::string("off, since the GPU driver opens files of its own");
  const Result<Sandbox> sandbox = enter_sandbox(sandbox_of(flags));
  if (!sandbox) return sandbox.error().annotate("--no-sandbox starts without it");
  return sandbox->describe();
}

}  // namespace pagoda
