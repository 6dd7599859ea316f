#include "cli/command_table.h"

#include <cstdlib>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "cli/assembly/devices.h"
#include "cli/assembly/hub_settings.h"
#include "cli/batch/run_batch_command.h"
#include "cli/bench/bench_flags.h"
#include "cli/chat/chat_command.h"
#include "cli/chat/chat_flags.h"
#include "cli/commands/cache_command.h"
#include "cli/commands/doctor_command.h"
#include "cli/commands/flag_commands.h"
#include "cli/commands/generate_command.h"
#include "cli/commands/inspect_command.h"
#include "cli/commands/key_command.h"
#include "cli/commands/kv_command.h"
#include "cli/commands/parse_command.h"
#include "cli/commands/perplexity_command.h"
#include "cli/commands/ps_command.h"
#include "cli/commands/pull_command.h"
#include "cli/commands/quantize_command.h"
#include "cli/commands/render_command.h"
#include "cli/commands/tokenize_command.h"
#include "cli/commands/typed_words.h"
#include "cli/environment_variable.h"
#include "cli/exit_code.h"
#include "cli/flags/engine_flag_table.h"
#include "cli/flags/environment.h"
#include "cli/flags/peer_flags.h"
#include "cli/launch/launch_command.h"
#include "cli/serve/serve_command.h"
#include "cli/simulate/simulate_flags.h"

namespace pagoda {
namespace {

using Ignored = std::vector<std::string>;

void append(std::vector<Flag>& rows, std::vector<Flag> more) {
  rows.insert(rows.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

// Appends the flags of the engine and the peers to a command's own flags, except for names that the command
// uses itself: the --batch-size of `bench latency` differs from llama-server's.
void append_others(std::vector<Flag>& own, std::vector<Flag> others) {
  std::set<std::string> taken;
  for (const Flag& flag : own) {
    if (!flag.name.empty()) taken.insert("--" + flag.name);
    taken.insert(flag.aliases.begin(), flag.aliases.end());
  }
  std::erase_if(others, [&](const Flag& flag) { return taken.contains("--" + flag.name); });
  for (Flag& flag : others)
    std::erase_if(flag.aliases, [&](const std::string& alias) { return taken.contains(alias); });
  append(own, std::move(others));
}

void log(const Ignored& ignored) {
  if (!ignored.empty()) log_warning("cli", ignored_flags_text(ignored));
}

// The meaning of a command's positional words: the model, or defined by its own flags.
enum class Words { model, own };

// A command that takes the engine's flags. `Args` has a member `engine`; the command's own flags come first.
template <class Args>
Command engine_command(const char* name, const char* summary, Status (*run)(const Args&),
                       std::vector<Flag> (*own_flags)(Args&), Words words = Words::model) {
  const auto args = std::make_shared<Args>();
  const auto ignored = std::make_shared<Ignored>();
  Command command{.name = name, .summary = summary, .flags = own_flags(*args)};
  append_others(command.flags, engine_flag_table(args->engine));
  if (words == Words::own)
    for (Flag& flag : command.flags)
      if (flag.name == "model") flag.positional.clear();
  append_others(command.flags, peer_flags(*ignored));
  command.run = [args, ignored, run] {
    if (const Status status = apply_environment(environment_variable, args->engine); !status.ok())
      return exit_code(status);
    if (const Status status = answer_gpu_flags(args->engine, *ignored); !status.ok())
      return exit_code(status);
    log(*ignored);
    // serve, generate and chat fetch the model later: after binding the port, or after parsing their own
    // arguments.
    constexpr bool fetches = !std::is_same_v<Args, ServeArgs> && !std::is_same_v<Args, GenerateArgs> &&
                             !std::is_same_v<Args, ChatArgs>;
    if constexpr (fetches) {
      if (const Status status = fetch_if_missing(args->engine); !status.ok()) return exit_code(status);
    }
    return exit_code(run(*args));
  };
  return command;
}

// A command without an engine, with only its own flags.
template <class Args>
Command plain_command(const char* name, const char* summary, int (*run)(const Args&),
                      std::vector<Flag> (*own_flags)(Args&)) {
  const auto args = std::make_shared<Args>();
  return {
      .name = name, .summary = summary, .flags = own_flags(*args), .run = [args, run] { return run(*args); }};
}

std::vector<Flag> doctor_flags(DoctorArgs&) { return {}; }

// For commands that print the table itself; it is built again when the command runs.
template <class Args>
Command table_command(const char* name, const char* summary, Status (*run)(const Args&, const Command&),
                      std::vector<Flag> (*own_flags)(Args&)) {
  const auto args = std::make_shared<Args>();
  return {.name = name, .summary = summary, .flags = own_flags(*args), .run = [args, run] {
            return exit_code(run(*args, command_table()));
          }};
}

Command config() {
  Command command{.name = "config", .summary = "check files of flags"};
  command.subcommands = {table_command<ConfigCheckArgs>("check", "check a file for serve --config",
                                                        check_config, config_check_flags)};
  return command;
}

std::vector<Flag> models_flags(ModelsArgs&) { return {}; }

Command named_also(std::vector<std::string> aliases, Command command) {
  command.aliases = std::move(aliases);
  return command;
}

std::vector<Flag> pack_flags(PackArgs&) { return {}; }
std::vector<Flag> cache_flags(CacheArgs&) { return {}; }

Command cache() {
  Command command{.name = "cache", .summary = "manage the packed weights on disk"};
  command.subcommands = {
      plain_command<CacheArgs>("list", "list the models that have packed weights", run_cache_list,
                               cache_flags),
      plain_command<CacheArgs>("clear", "delete all packed weights", run_cache_clear, cache_flags),
  };
  return command;
}

Command kv() {
  Command command{.name = "kv", .summary = "manage the K/V that --kv-disk keeps"};
  command.subcommands = {
      plain_command<KvPathArgs>("list", "list the models whose K/V a folder holds", run_kv_list,
                                kv_path_flags),
      plain_command<KvPathArgs>("clear", "delete all K/V of a folder", run_kv_clear, kv_path_flags),
      plain_command<KvPathArgs>("verify", "read all K/V of a folder and compare checksums", run_kv_verify,
                                kv_path_flags),
  };
  return command;
}

Command key() {
  Command command{.name = "key", .summary = "manage API keys"};
  command.subcommands = {plain_command<KeyNewArgs>("new", "make a key, print it once and store its hash",
                                                   run_key_new, key_new_flags)};
  return command;
}

Command bench_serve() {
  const auto args = std::make_shared<BenchServeArgs>();
  const auto ignored = std::make_shared<Ignored>();
  Command command{.name = "serve",
                  .summary = "load test a server, as `vllm bench serve` does",
                  .flags = bench_serve_flags(*args)};
  append(command.flags, vllm_bench_flags(*ignored));
  command.run = [args, ignored] {
    log(*ignored);
    return exit_code(run_bench_serve(*args));
  };
  return command;
}

Command bench() {
  Command command{.name = "bench", .summary = "measure the speed of the engine or of a server"};
  command.subcommands = {
      engine_command<BenchLatencyArgs>("latency", "measure the latency of one batch at a time",
                                       run_bench_latency, bench_latency_flags),
      engine_command<BenchThroughputArgs>("throughput", "measure the throughput of many requests at once",
                                          run_bench_throughput, bench_throughput_flags),
      engine_command<BenchKvManagersArgs>("kv-managers",
                                          "compare the paged, virtual and reserved KV managers",
                                          run_bench_kv_managers, bench_kv_managers_flags),
      bench_serve(),
      engine_command<CalibrateArgs>("calibrate", "measure a cost model of this machine, for simulate",
                                    run_bench_calibrate, calibrate_flags),
  };
  return command;
}

}  // namespace

Command command_table() {
  Command root{
      .name = "pagoda",
      .summary =
          "Serves large language models from a paged KV cache. `pagoda COMMAND --help` lists a command's "
          "flags",
      .flags = {{.name = "version", .value = {.shape = FlagValue::Shape::on}, .help = "print the version"}}};
  root.subcommands = {
      engine_command<ServeArgs>("serve", "start an OpenAI-compatible server", run_serve, serve_flags),
      engine_command<ChatArgs>("chat", "chat with a model in the terminal", run_chat, chat_flags),
      engine_command<ChatArgs>("run", "answer one prompt, or chat in the terminal", run_run, run_flags,
                               Words::own),
      plain_command<LaunchArgs>("launch", "start a coding agent on a running server", run_launch,
                                launch_flags),
      engine_command<GenerateArgs>("generate", "continue a prompt, or complete a file of requests",
                                   run_generate, generate_flags, Words::own),
      engine_command<RunBatchArgs>("run-batch", "run a file of OpenAI batch requests offline", run_batch,
                                   run_batch_flags),
      bench(),
      engine_command<SimulateArgs>("simulate", "run the engine on a virtual clock with a cost model",
                                   run_simulate, simulate_flags),
      engine_command<PlanArgs>("plan", "find the highest rate, or the replicas for a rate", run_plan,
                               plan_flags),
      engine_command<PerplexityArgs>("perplexity", "measure a model's perplexity on a text", run_perplexity,
                                     perplexity_flags),
      engine_command<DoctorArgs>("doctor", "check this machine, and the engine on it", run_doctor,
                                 doctor_flags),
      plain_command<PullArgs>("pull", "download a model from the hub", run_pull, pull_flags),
      named_also({"ls"}, plain_command<ListArgs>("list", "list the models on this machine (also: ls)",
                                                 run_list, list_flags)),
      plain_command<ModelsArgs>("models", "list short names of models on the hub", run_models, models_flags),
      plain_command<PsArgs>("ps", "list the servers running on this machine", run_ps, ps_flags),
      plain_command<StopArgs>("stop", "stop a server after its running requests", run_stop, stop_flags),
      plain_command<PullArgs>("rm", "delete a downloaded model", run_rm, pull_flags),
      engine_command<PackArgs>("pack", "pack a model's weights before its first start", run_pack, pack_flags),
      cache(),
      kv(),
      key(),
      named_also({"show"},
                 plain_command<InspectArgs>("inspect", "show a model's contents and memory (also: show)",
                                            run_inspect, inspect_flags)),
      plain_command<QuantizeArgs>("quantize", "write a model with its weights in another type", run_quantize,
                                  quantize_flags),
      plain_command<TokenizeArgs>("tokenize", "convert text to token ids, and back", run_tokenize,
                                  tokenize_flags),
      plain_command<ParseArgs>("parse", "split a model's output into reasoning and tool calls", run_parse,
                               parse_flags),
      plain_command<RenderArgs>("render", "render a chat template", run_render, render_flags),
      config(),
      table_command<CompletionArgs>("completion", "print shell completions", print_completion,
                                    completion_flags),
      table_command<ManArgs>("man", "print or write man pages", print_man, man_flags),
  };
  return root;
}

}  // namespace pagoda
