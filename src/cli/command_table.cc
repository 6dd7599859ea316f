#include "cli/command_table.h"

#include <unistd.h>

#include <cstdlib>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "cli/batch/run_batch_command.h"
#include "cli/bench/bench_flags.h"
#include "cli/commands/cache_command.h"
#include "cli/commands/chat_command.h"
#include "cli/commands/doctor_command.h"
#include "cli/commands/flag_commands.h"
#include "cli/commands/generate_command.h"
#include "cli/commands/inspect_command.h"
#include "cli/commands/key_command.h"
#include "cli/commands/parse_command.h"
#include "cli/commands/perplexity_command.h"
#include "cli/commands/pull_command.h"
#include "cli/commands/render_command.h"
#include "cli/commands/tokenize_command.h"
#include "cli/commands/typed_words.h"
#include "cli/exit_code.h"
#include "cli/flags/engine_flag_table.h"
#include "cli/flags/environment.h"
#include "cli/flags/flag_values.h"
#include "cli/flags/vllm_flags.h"
#include "cli/serve/serve_command.h"
#include "cli/simulate/simulate_flags.h"

namespace pagoda {
namespace {

using Warnings = std::vector<std::string>;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

void append(std::vector<Flag>& rows, std::vector<Flag> more) {
  rows.insert(rows.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

void log(const Warnings& warnings) {
  for (const std::string& warning : warnings) log_warning("cli", warning);
}

// What a command's words are: the model, or what its own flags say.
enum class Words { model, own };

// A command that takes the engine's flags. `Args` has a member `engine`; its own flags come first.
template <class Args>
Command engine_command(const char* name, const char* summary, Status (*run)(const Args&),
                       std::vector<Flag> (*own_flags)(Args&), Words words = Words::model) {
  const auto args = std::make_shared<Args>();
  const auto warnings = std::make_shared<Warnings>();
  Command command{.name = name, .summary = summary, .flags = own_flags(*args)};
  append(command.flags, engine_flag_table(args->engine));
  if (words == Words::own)
    for (Flag& flag : command.flags)
      if (flag.name == "model") flag.positional.clear();
  append(command.flags, vllm_flags(*warnings));
  command.run = [args, warnings, run] {
    if (const Status status = apply_environment(environment, args->engine); !status.ok())
      return exit_code(status);
    log(*warnings);
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
  return {
      {.name = "record",
       .value = flags::text(args.engine.record, "FILE"),
       .help = "log of requests, decisions and step times, for simulate --replay; holds prompts as token ids",
       .environment = true},
      {.name = "poison-record",
       .value = flags::text(args.engine.poison_record, "FILE"),
       .help = "hashes of requests that an engine died of, which are then refused; none: keep none",
       .default_text = "in the cache directory, by port",
       .environment = true}};
}

std::vector<Flag> generate_flags(GenerateArgs& args) {
  return {
      {.positional = "MODEL",
       .value = flags::text(args.first, "PATH"),
       .help = "as --model; a word alone that names no file is the prompt"},
      {.positional = "PROMPT",
       .value = flags::text(args.second, "TEXT"),
       .help = "text that is to go on; without one: standard input"},
      {.name = "input",
       .value = flags::text(args.input, "FILE"),
       .help = "instead of a prompt: bodies of /v1/completions, one JSON a line; -: stdin",
       .details = "instead of a prompt: bodies of /v1/completions, one JSON a line; -: stdin. Responses come "
                  "in the same "
                  "order; an invalid line gives an error body in its place; exit code 2 when the engine dies "
                  "on the way",
       .aliases = {"-i"}},
      {.name = "output",
       .value = flags::text(args.output, "FILE"),
       .help = "the text, or responses in the same order; -: stdout",
       .default_text = "-",
       .aliases = {"-o"}},
      {.name = "max-tokens", .value = flags::int32(args.max_tokens, 1), .help = "of the answer to a prompt"},
  };
}

std::vector<Flag> run_batch_flags(RunBatchArgs& args) {
  return {
      {.name = "input",
       .value = flags::text(args.input, "FILE"),
       .help = "OpenAI's batch lines: {\"custom_id\", \"method\", \"url\", \"body\"}",
       .aliases = {"-i"},
       .required = true},
      {.name = "output",
       .value = flags::text(args.output, "FILE"),
       .help = "an answer a line, as they come; one that is there already is gone on with",
       .aliases = {"-o"},
       .required = true},
  };
}

std::vector<Flag> chat_flags(ChatArgs& args) {
  return {
      {.name = "system-prompt",
       .value = flags::text(args.system_prompt, "TEXT"),
       .help = "what the model is told first"},
      {.name = "quick",
       .value = flags::text(args.prompt, "TEXT"),
       .help = "answer this and leave",
       .aliases = {"-q"}},
      {.name = "max-tokens", .value = flags::int32(args.max_tokens, 1), .help = "of one answer"},
      {.name = "temperature",
       .value = flags::number(args.temperature, 0, 2),
       .help = "0: always the likeliest token"},
      {.name = "top-p",
       .value = flags::number(args.top_p, 0, 1),
       .help = "share of the probability to choose from"},
  };
}

std::vector<Flag> run_flags(ChatArgs& args) {
  std::vector<Flag> rows = {
      {.positional = "MODEL",
       .value = flags::text(args.engine.model, "PATH"),
       .help = "as --model",
       .default_text = "the default model"},
      {.positional = "PROMPT",
       .value = flags::text(args.prompt, "TEXT"),
       .help = "what is asked; without one: standard input by pipe, else a conversation"},
  };
  for (Flag& row : chat_flags(args))
    if (row.name != "quick") rows.push_back(std::move(row));
  return rows;
}

// As Ollama's: one answer where there is a prompt.
Status run_run(const ChatArgs& args) {
  if (!args.prompt.empty() || isatty(STDIN_FILENO) == 1) return run_chat(args);
  ChatArgs piped = args;
  auto text = piped_text();
  if (!text) return text.error();
  piped.prompt = *std::move(text);
  return run_chat(piped);
}

std::vector<Flag> perplexity_flags(PerplexityArgs& args) {
  return {
      {.name = "file",
       .value = flags::text(args.file, "FILE"),
       .help = "UTF-8 text; -: stdin",
       .aliases = {"-f"},
       .required = true},
      {.name = "context",
       .value = flags::int32(args.context, 2),
       .help = "tokens in a window",
       .details = "tokens in a window; windows do not overlap"},
      {.name = "bos",
       .value = flags::on(args.bos),
       .help = "each window begins with the model's BOS token, as Gemma needs it"},
  };
}

std::vector<Flag> doctor_flags(DoctorArgs&) { return {}; }

std::vector<Flag> inspect_flags(InspectArgs& args) {
  return {
      {.positional = "MODEL",
       .value = flags::text(args.path, "PATH"),
       .help = "folder, .gguf, .safetensors, config.json, tokenizer.json, or ORG/NAME in the local cache",
       .required = true},
      {.name = "json", .value = flags::on(args.json), .help = "one JSON object instead of a table"},
  };
}

std::vector<Flag> tokenize_flags(TokenizeArgs& args) {
  return {
      {.positional = "TOKENIZER",
       .value = flags::text(args.tokenizer, "PATH"),
       .help = "folder, tokenizer.json, SentencePiece tokenizer.model, or .gguf with or without weights",
       .default_text = "the default model's"},
      {.positional = "TEXT",
       .value = flags::text(args.text, "TEXT"),
       .help = "what is split; with --decode ids. A word alone is the text; without one: standard input"},
      {.name = "input",
       .value = flags::text(args.input, "FILE"),
       .help = "instead: one {\"text\": …} a line; with --decode {\"ids\": […]}; -: stdin",
       .aliases = {"-i"}},
      {.name = "decode", .value = flags::on(args.decode), .help = "ids to text"},
      {.name = "add-special-tokens",
       .value = flags::on(args.add_special_tokens),
       .help = "BOS and EOS as the tokenizer wants them"},
  };
}

std::vector<Flag> render_flags(RenderArgs& args) {
  return {
      {.name = "template",
       .value = flags::text(args.template_path, "FILE"),
       .help = "Jinja chat template",
       .required = true},
      {.name = "input",
       .value = flags::text(args.input_path, "FILE"),
       .help = "a context a line: messages, tools, add_generation_prompt, bos_token, …, now",
       .aliases = {"-i"},
       .required = true},
      {.name = "trim-blocks",
       .value = flags::on_off(args.trim_blocks),
       .help = "a block's newline is dropped"},
      {.name = "lstrip-blocks",
       .value = flags::on_off(args.lstrip_blocks),
       .help = "the space before a block is dropped"},
  };
}

std::vector<Flag> completion_flags(CompletionArgs& args) {
  return {{.positional = "SHELL",
           .value = flags::choice(args.shell, {"bash", "zsh", "fish"}),
           .help = "whose completions are written",
           .required = true}};
}

std::vector<Flag> man_flags(ManArgs& args) {
  return {
      {.positional = "COMMAND",
       .value = flags::text(args.command, "NAME"),
       .help = "whose page; several words with dashes: bench-serve",
       .default_text = "pagoda"},
      {.name = "output", .value = flags::text(args.output, "DIR"), .help = "every page, into this folder"},
      {.name = "markdown",
       .value = flags::choice(args.markdown, {"flags", "commands", "models"}),
       .help = "instead: this page of docs/"},
  };
}

std::vector<Flag> config_check_flags(ConfigCheckArgs& args) {
  return {{.positional = "FILE",
           .value = flags::text(args.file, "PATH"),
           .help = "YAML, as of serve --config",
           .required = true}};
}

// Of what is made from the table itself: it is built once more when the command runs.
template <class Args>
Command table_command(const char* name, const char* summary, Status (*run)(const Args&, const Command&),
                      std::vector<Flag> (*own_flags)(Args&)) {
  const auto args = std::make_shared<Args>();
  return {.name = name, .summary = summary, .flags = own_flags(*args), .run = [args, run] {
            return exit_code(run(*args, command_table()));
          }};
}

Command config() {
  Command command{.name = "config", .summary = "files of flags"};
  command.subcommands = {table_command<ConfigCheckArgs>("check", "whether serve --config would take a file",
                                                        check_config, config_check_flags)};
  return command;
}

std::vector<Flag> parse_flags(ParseArgs& args) {
  return {
      {.name = "tool-call-parser",
       .value = flags::text(args.tool_parser, "NAME"),
       .help = "vLLM's name of how calls are written, or auto"},
      {.name = "reasoning-parser",
       .value = flags::text(args.reasoning_parser, "NAME"),
       .help = "likewise of the reasoning"},
      {.name = "input",
       .value = flags::text(args.input, "FILE"),
       .help = "a model's output a line: text, tools, tool_choice, starts_in_reasoning",
       .aliases = {"-i"},
       .required = true},
      {.name = "template",
       .value = flags::text(args.template_path, "FILE"),
       .help = "the chat template that auto looks at"},
      {.name = "every-cut",
       .value = flags::on(args.every_cut),
       .help = "each text also in pieces, cut at every place: the message must stay the same"},
  };
}

std::vector<Flag> pull_flags(PullArgs& args) {
  return {{.positional = "NAME",
           .value = flags::text(args.name, "ORG/NAME[:TAG]"),
           .help = "a model on the hub; the tag chooses among GGUF files: Q4_K_M",
           .required = true}};
}

std::vector<Flag> list_flags(ListArgs&) { return {}; }

std::vector<Flag> pack_flags(PackArgs&) { return {}; }
std::vector<Flag> cache_flags(CacheArgs&) { return {}; }

Command cache() {
  Command command{.name = "cache", .summary = "the packed weights on disk"};
  command.subcommands = {
      plain_command<CacheArgs>("list", "which models have some", run_cache_list, cache_flags),
      plain_command<CacheArgs>("clear", "remove all of them", run_cache_clear, cache_flags),
  };
  return command;
}

std::vector<Flag> key_new_flags(KeyNewArgs& args) {
  return {
      {.positional = "NAME",
       .value = flags::text(args.name, "NAME"),
       .help = "whose key it is: in logs, metrics and /admin/usage",
       .required = true},
      {.name = "api-key-file",
       .value = flags::text(args.file, "FILE"),
       .help = "gets the key's hash, and is made where it is missing; without one the entry is printed",
       .aliases = {"--file", "-f"},
       .environment = true},
      {.name = "role",
       .value = flags::choice(args.role, {"user", "metrics", "admin"}),
       .help = "what it may ask for"},
  };
}

Command key() {
  Command command{.name = "key", .summary = "API keys"};
  command.subcommands = {plain_command<KeyNewArgs>("new", "make a key, print it once and store its hash",
                                                   run_key_new, key_new_flags)};
  return command;
}

Command bench_serve() {
  const auto args = std::make_shared<BenchServeArgs>();
  const auto warnings = std::make_shared<Warnings>();
  Command command{.name = "serve",
                  .summary = "load on an OpenAI-compatible server, as `vllm bench serve`",
                  .flags = bench_serve_flags(*args)};
  append(command.flags, vllm_bench_flags(*warnings));
  command.run = [args, warnings] {
    log(*warnings);
    return exit_code(run_bench_serve(*args));
  };
  return command;
}

Command bench() {
  Command command{.name = "bench", .summary = "how fast the engine is, or a server"};
  command.subcommands = {
      engine_command<BenchLatencyArgs>("latency", "one batch at a time", run_bench_latency,
                                       bench_latency_flags),
      engine_command<BenchThroughputArgs>("throughput", "many requests at once", run_bench_throughput,
                                          bench_throughput_flags),
      engine_command<BenchKvManagersArgs>("kv-managers", "paged, virtual and reserved memory side by side",
                                          run_bench_kv_managers, bench_kv_managers_flags),
      bench_serve(),
      engine_command<CalibrateArgs>("calibrate", "a cost model of this machine, for simulate",
                                    run_bench_calibrate, calibrate_flags),
  };
  return command;
}

}  // namespace

Command command_table() {
  Command root{
      .name = "pagoda",
      .summary =
          "Serves large language models from a paged KV cache. Flags of a command: pagoda COMMAND --help",
      .flags = {{.name = "version", .value = {.shape = FlagValue::Shape::on}, .help = "version"}}};
  root.subcommands = {
      engine_command<ServeArgs>("serve", "OpenAI-compatible server", run_serve, serve_flags),
      engine_command<ChatArgs>("chat", "talk to a model in the terminal", run_chat, chat_flags),
      engine_command<ChatArgs>("run", "one answer of a model, or a conversation with it", run_run, run_flags,
                               Words::own),
      engine_command<GenerateArgs>("generate", "how a prompt goes on, or completions for a file of requests",
                                   run_generate, generate_flags, Words::own),
      engine_command<RunBatchArgs>("run-batch",
                                   "a file of calls to any endpoint, through the engine without HTTP",
                                   run_batch, run_batch_flags),
      bench(),
      engine_command<SimulateArgs>("simulate", "the engine on a virtual clock and a cost model", run_simulate,
                                   simulate_flags),
      engine_command<PlanArgs>("plan", "which rate machines can hold, or how many a rate needs", run_plan,
                               plan_flags),
      engine_command<PerplexityArgs>("perplexity", "how well a model predicts a text", run_perplexity,
                                     perplexity_flags),
      engine_command<DoctorArgs>("doctor", "check this machine and the engine on it", run_doctor,
                                 doctor_flags),
      plain_command<PullArgs>("pull", "fetch a model from the hub into the Hugging Face cache", run_pull,
                              pull_flags),
      plain_command<ListArgs>("list", "the models in the Hugging Face cache", run_list, list_flags),
      plain_command<PullArgs>("rm", "remove a model from the Hugging Face cache", run_rm, pull_flags),
      engine_command<PackArgs>("pack", "make the packed weights of a model beforehand", run_pack, pack_flags),
      cache(),
      key(),
      plain_command<InspectArgs>("inspect",
                                 "what a model file holds, the memory it takes, how fast it can be",
                                 run_inspect, inspect_flags),
      plain_command<TokenizeArgs>("tokenize", "text to token ids, and back", run_tokenize, tokenize_flags),
      plain_command<ParseArgs>("parse", "what a model wrote: reasoning, content, tool calls", run_parse,
                               parse_flags),
      plain_command<RenderArgs>("render", "a chat template's prompt for each context", run_render,
                                render_flags),
      config(),
      table_command<CompletionArgs>("completion", "a shell's completions, from the flags' declarations",
                                    print_completion, completion_flags),
      table_command<ManArgs>("man", "man pages, from the flags' declarations", print_man, man_flags),
  };
  return root;
}

}  // namespace pagoda
