#include "cli/command_table.h"

#include <cstdlib>
#include <iterator>
#include <memory>
#include <optional>
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
#include "cli/commands/parse_command.h"
#include "cli/commands/perplexity_command.h"
#include "cli/commands/ps_command.h"
#include "cli/commands/pull_command.h"
#include "cli/commands/quantize_command.h"
#include "cli/commands/render_command.h"
#include "cli/commands/tokenize_command.h"
#include "cli/commands/typed_words.h"
#include "cli/exit_code.h"
#include "cli/flags/engine_flag_table.h"
#include "cli/flags/environment.h"
#include "cli/flags/flag_values.h"
#include "cli/flags/peer_flags.h"
#include "cli/launch/launch_command.h"
#include "cli/serve/serve_command.h"
#include "cli/simulate/simulate_flags.h"

namespace pagoda {
namespace {

using Ignored = std::vector<std::string>;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

void append(std::vector<Flag>& rows, std::vector<Flag> more) {
  rows.insert(rows.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

// The engine's and the peers' rows behind a command's own, without the names that its own have: `bench
// latency` has a --batch-size of another meaning than llama-server's.
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

// The meaning of a command's words: the model, or as its own flags say.
enum class Words { model, own };

// A command that takes the engine's flags. `Args` has a member `engine`; its own flags come first.
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
    if (const Status status = apply_environment(environment, args->engine); !status.ok())
      return exit_code(status);
    if (const Status status = answer_gpu_flags(args->engine, *ignored); !status.ok())
      return exit_code(status);
    log(*ignored);
    // serve, generate and chat fetch the model later: after binding, or after parsing their own arguments.
    constexpr bool fetches = !std::is_same_v<Args, ServeArgs> && !std::is_same_v<Args, GenerateArgs> &&
                             !std::is_same_v<Args, ChatArgs>;
    if constexpr (fetches) {
      if (const Status status = fetch_if_missing(args->engine); !status.ok()) return exit_code(status);
    }
    return exit_code(run(*args));
  };
  return command;
}

// A command without an engine: its own flags only.
template <class Args>
Command plain_command(const char* name, const char* summary, int (*run)(const Args&),
                      std::vector<Flag> (*own_flags)(Args&)) {
  const auto args = std::make_shared<Args>();
  return {
      .name = name, .summary = summary, .flags = own_flags(*args), .run = [args, run] { return run(*args); }};
}

std::vector<Flag> serve_flags(ServeArgs& args) {
  std::optional<std::int32_t>& max_tokens = args.engine.sampling.max_tokens;
  const auto store_max_tokens = [&max_tokens](std::int64_t tokens) {
    // llama-server's -1: no limit but the context.
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

std::vector<Flag> generate_flags(GenerateArgs& args) {
  return {
      {.positional = "MODEL",
       .value = flags::text(args.first, "PATH"),
       .help = "model, as --model; a single word that names no file is the prompt"},
      {.positional = "PROMPT",
       .value = flags::text(args.second, "TEXT"),
       .help = "text to continue",
       .default_text = "standard input"},
      {.name = "input",
       .value = flags::text(args.input, "FILE"),
       .help = "file of /v1/completions bodies, one JSON object per line; -: stdin",
       .details =
           "file of /v1/completions bodies, one JSON object per line; -: stdin. Responses keep the order of "
           "the lines; an invalid line gets an error body; the exit code is 2 if the engine fails",
       .aliases = {"-i"}},
      {.name = "output",
       .value = flags::text(args.output, "FILE"),
       .help = "file for the text, or for the responses in the order of the requests; -: stdout",
       .default_text = "-",
       .aliases = {"-o"}},
      {.name = "max-tokens",
       .value = flags::int32(args.max_tokens, 1),
       .help = "maximum number of output tokens per prompt",
       .aliases = {"-n", "--n-predict", "--predict"}},
  };
}

std::vector<Flag> run_batch_flags(RunBatchArgs& args) {
  return {
      {.name = "input",
       .value = flags::text(args.input, "FILE"),
       .help = "file in OpenAI's batch format: {\"custom_id\", \"method\", \"url\", \"body\"} per line",
       .aliases = {"-i"},
       .required = true},
      {.name = "output",
       .value = flags::text(args.output, "FILE"),
       .help = "file for the answers, one per line; an existing file is resumed",
       .aliases = {"-o"},
       .required = true},
  };
}

std::vector<Flag> perplexity_flags(PerplexityArgs& args) {
  return {
      {.name = "file",
       .value = flags::text(args.file, "FILE"),
       .help = "text to score, in UTF-8; -: stdin",
       .aliases = {"-f"},
       .required = true},
      {.name = "context",
       .value = flags::int32(args.context, 2),
       .help = "window size in tokens",
       .details = "window size in tokens; windows do not overlap"},
      {.name = "bos",
       .value = flags::on(args.bos),
       .help = "begin each window with the model's BOS token, as Gemma needs it"},
      {.name = "kl-divergence",
       .value = flags::on(args.kl_divergence),
       .help = "also compare each token's distribution with that of the same weights in float32",
       .details = "also compare each token's distribution with that of the same file under `--dtype float32 "
                  "--kv-cache-dtype float32`: Kullback-Leibler divergence, and how often the most likely "
                  "token is the same. Needs the memory of both"},
  };
}

std::vector<Flag> doctor_flags(DoctorArgs&) { return {}; }

std::vector<Flag> inspect_flags(InspectArgs& args) {
  return {
      {.positional = "MODEL",
       .value = flags::text(args.path, "PATH"),
       .help = "folder, .gguf, .safetensors, config.json, tokenizer.json, or ORG/NAME[:TAG]",
       .required = true},
      {.name = "json", .value = flags::on(args.json), .help = "print JSON instead of a table"},
  };
}

std::vector<Flag> tokenize_flags(TokenizeArgs& args) {
  return {
      {.positional = "TOKENIZER",
       .value = flags::text(args.tokenizer, "PATH"),
       .help = "folder, tokenizer.json, SentencePiece tokenizer.model, .gguf (weights optional), or "
               "ORG/NAME[:TAG]",
       .default_text = "the default model's"},
      {.positional = "TEXT",
       .value = flags::text(args.text, "TEXT"),
       .help = "text to tokenize, or ids with --decode; a single word is the text",
       .default_text = "standard input"},
      {.name = "input",
       .value = flags::text(args.input, "FILE"),
       .help = "file of {\"text\": …} objects, one per line, or {\"ids\": […]} with --decode; -: stdin",
       .aliases = {"-i"}},
      {.name = "decode", .value = flags::on(args.decode), .help = "convert token ids to text"},
      {.name = "add-special-tokens",
       .value = flags::on(args.add_special_tokens),
       .help = "add BOS and EOS tokens as the tokenizer defines them"},
  };
}

std::vector<Flag> render_flags(RenderArgs& args) {
  return {
      {.name = "template",
       .value = flags::text(args.template_path, "FILE"),
       .help = "Jinja chat template file",
       .required = true},
      {.name = "input",
       .value = flags::text(args.input_path, "FILE"),
       .help = "file of template contexts, one JSON object per line: messages, tools, add_generation_prompt, "
               "bos_token, …, now",
       .aliases = {"-i"},
       .required = true},
      {.name = "trim-blocks",
       .value = flags::on_off(args.trim_blocks),
       .help = "remove the newline after a block"},
      {.name = "lstrip-blocks",
       .value = flags::on_off(args.lstrip_blocks),
       .help = "remove the whitespace before a block"},
  };
}

std::vector<Flag> completion_flags(CompletionArgs& args) {
  return {{.positional = "SHELL",
           .value = flags::choice(args.shell, {"bash", "zsh", "fish"}),
           .help = "shell to write completions for",
           .required = true}};
}

std::vector<Flag> man_flags(ManArgs& args) {
  return {
      {.positional = "COMMAND",
       .value = flags::text(args.command, "NAME"),
       .help = "command to describe, with dashes between words: bench-serve",
       .default_text = "pagoda"},
      {.name = "output",
       .value = flags::text(args.output, "DIR"),
       .help = "write all pages into this folder"},
      {.name = "markdown",
       .value = flags::choice(args.markdown, {"flags", "peer-flags", "commands", "models"}),
       .help = "print this page of docs/ as Markdown"},
  };
}

std::vector<Flag> config_check_flags(ConfigCheckArgs& args) {
  return {{.positional = "FILE",
           .value = flags::text(args.file, "PATH"),
           .help = "YAML file for serve --config",
           .required = true}};
}

// For commands that print the table itself: it is built once more when the command runs.
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

std::vector<Flag> parse_flags(ParseArgs& args) {
  return {
      {.name = "tool-call-parser",
       .value = flags::text(args.tool_parser, "NAME"),
       .help = "tool call parser: a name from vLLM, or auto"},
      {.name = "reasoning-parser",
       .value = flags::text(args.reasoning_parser, "NAME"),
       .help = "reasoning parser: a name from vLLM, or auto"},
      {.name = "input",
       .value = flags::text(args.input, "FILE"),
       .help = "file of model outputs, one JSON object per line: text, tools, tool_choice, "
               "starts_in_reasoning; without it, print the formats of --template",
       .aliases = {"-i"}},
      {.name = "template",
       .value = flags::text(args.template_path, "FILE"),
       .help = "chat template from which auto chooses the formats"},
      {.name = "every-cut",
       .value = flags::on(args.every_cut),
       .help = "also parse each text in two pieces, cut at every position, and check that the result is the "
               "same"},
  };
}

std::vector<Flag> pull_flags(PullArgs& args) {
  return {{.positional = "NAME",
           .value = flags::text(args.name, "ORG/NAME[:TAG]"),
           .help = "ORG/NAME[:TAG], a URL on the hub, or a short name of `pagoda models`; TAG selects a GGUF "
                   "file: Q4_K_M",
           .required = true}};
}

std::vector<Flag> list_flags(ListArgs& args) {
  return {{.name = "json", .value = flags::on(args.json), .help = "print JSON instead of a table"}};
}
std::vector<Flag> models_flags(ModelsArgs&) { return {}; }

Command named_also(std::vector<std::string> aliases, Command command) {
  command.aliases = std::move(aliases);
  return command;
}

std::vector<Flag> pack_flags(PackArgs&) { return {}; }
std::vector<Flag> cache_flags(CacheArgs&) { return {}; }

std::vector<Flag> ps_flags(PsArgs& args) {
  return {{.name = "json", .value = flags::on(args.json), .help = "print JSON instead of a table"}};
}

std::vector<Flag> stop_flags(StopArgs& args) {
  return {{.positional = "SERVER",
           .value = flags::text(args.server, "SERVER"),
           .help = "server to stop: PID, port or model, as `pagoda ps` shows them",
           .default_text = "the only one running"}};
}

Command cache() {
  Command command{.name = "cache", .summary = "manage the packed weights on disk"};
  command.subcommands = {
      plain_command<CacheArgs>("list", "list the models that have packed weights", run_cache_list,
                               cache_flags),
      plain_command<CacheArgs>("clear", "delete all packed weights", run_cache_clear, cache_flags),
  };
  return command;
}

std::vector<Flag> key_new_flags(KeyNewArgs& args) {
  return {
      {.positional = "NAME",
       .value = flags::text(args.name, "NAME"),
       .help = "name of the key in logs, metrics and /admin/usage",
       .required = true},
      {.name = "api-key-file",
       .value = flags::text(args.file, "FILE"),
       .help = "YAML file to add the key's hash to, created if missing; without it the entry is printed",
       .aliases = {"--file", "-f"},
       .environment = true},
      {.name = "role",
       .value = flags::choice(args.role, {"user", "metrics", "admin"}),
       .help = "role of the key"},
  };
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
      key(),
      named_also({"show"},
                 plain_command<InspectArgs>("inspect", "show a model's contents and memory (also: show)",
                                            run_inspect, inspect_flags)),
      plain_command<QuantizeArgs>("quantize", "write a GGUF model in another type", run_quantize,
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
