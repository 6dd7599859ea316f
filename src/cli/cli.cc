// The command line: one function per subcommand declares its flags and says what runs.
#include "cli/cli.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/strings.h"
#include "base/version.h"
#include "cli/bench/bench_command.h"
#include "cli/bench/bench_kv_managers.h"
#include "cli/bench/bench_serve_command.h"
#include "cli/commands/chat_command.h"
#include "cli/commands/doctor_command.h"
#include "cli/commands/generate_command.h"
#include "cli/commands/inspect_command.h"
#include "cli/commands/parse_command.h"
#include "cli/commands/perplexity_command.h"
#include "cli/commands/render_command.h"
#include "cli/commands/tokenize_command.h"
#include "cli/flags/add_engine_flags.h"
#include "cli/flags/flags.h"
#include "cli/flags/help.h"
#include "cli/flags/suggest.h"
#include "cli/flags/vllm_flags.h"
#include "cli/serve/serve_command.h"
#include "cli/simulate/calibrate_command.h"
#include "cli/simulate/plan_command.h"
#include "cli/simulate/simulate_command.h"
#include "loader/mapped_file.h"

namespace pagoda {
namespace {

constexpr int kExitUsage = 2;

// What the chosen subcommand does once everything is parsed.
using Action = std::function<int()>;

int fail(std::string_view message) {
  // One line, whatever a path or a library put into the message.
  std::string line = concat("pagoda: ", message);
  for (char& c : line)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  line.push_back('\n');
  std::fputs(line.c_str(), stderr);
  return kExitUsage;
}

int exit_code(const Status& status) { return status.ok() ? 0 : fail(status.message()); }

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

Status configure_logging() {
  std::string name = environment("PAGODA_LOGGING_LEVEL");
  if (name.empty()) name = environment("VLLM_LOGGING_LEVEL");
  if (name.empty()) return ok_status();
  for (char& c : name)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  if (name == "DEBUG")
    set_log_level(LogLevel::debug);
  else if (name == "INFO")
    set_log_level(LogLevel::info);
  else if (name == "WARNING" || name == "WARN")
    set_log_level(LogLevel::warning);
  else if (name == "ERROR" || name == "CRITICAL")
    set_log_level(LogLevel::error);
  else
    return invalid_argument(
        concat("PAGODA_LOGGING_LEVEL: '", name, "' is not DEBUG, INFO, WARNING or ERROR"));
  return ok_status();
}

// A subcommand that takes the engine's flags. `Args` has a member `engine`; `declare` adds the command's own
// flags, which --help lists first.
template <class Args>
CLI::App* add_engine_command(CLI::App& parent, Action& action, const char* name, const char* help,
                             Status (*run)(const Args&), void (*declare)(CLI::App&, Args&)) {
  CLI::App* command = parent.add_subcommand(name, help);
  const auto args = std::make_shared<Args>();
  const auto warnings = std::make_shared<std::vector<std::string>>();
  if (declare != nullptr) declare(*command, *args);
  add_engine_flags(*command, args->engine);
  add_vllm_flags(*command, *warnings);
  command->final_callback([args, warnings, run, &action] {
    action = [args, warnings, run] {
      if (const Status status = apply_environment(environment, args->engine); !status.ok())
        return exit_code(status);
      for (const std::string& warning : *warnings) log_warning("cli", warning);
      return exit_code(run(*args));
    };
  });
  return command;
}

void declare_serve(CLI::App& command, ServeArgs& args) {
  flags::text(command, "--record", args.engine.record, "FILE",
              "log of requests, decisions and step times, for simulate --replay; holds prompts as token ids");
}

void declare_generate(CLI::App& command, GenerateArgs& args) {
  flags::text(command, "-i,--input", args.input, "FILE",
              "bodies of /v1/completions, one JSON a line; -: stdin")
      ->required();
  flags::text(command, "-o,--output", args.output, "FILE", "responses in the same order; -: stdout")
      ->required();
}

void declare_chat(CLI::App& command, ChatArgs& args) {
  flags::text(command, "--system-prompt", args.system_prompt, "TEXT", "what the model is told first");
  flags::text(command, "-q,--quick", args.prompt, "TEXT", "answer this and leave");
  flags::int32(command, "--max-tokens", args.max_tokens, 1, "of one answer");
  flags::number(command, "--temperature", args.temperature, 0, 2, "0: always the likeliest token");
  flags::number(command, "--top-p", args.top_p, 0, 1, "share of the probability to choose from");
}

void declare_bench_decoding(CLI::App& command, BenchDecoding& args) {
  flags::int32(command, "--n", args.n, 1, "answers to each request; above 1 sampled");
  flags::int32(command, "--best-of", args.best_of, 0, "sequences run for them; 0: as many");
  flags::int32(command, "--beam-width", args.beam_width, 0, "beam search of this width; 0: none");
  flags::int32(command, "--prefix-len", args.prefix_len, 0, "prompt tokens that all requests share");
}

void declare_latency(CLI::App& command, BenchLatencyArgs& args) {
  flags::int32(command, "--input-len", args.input_len, 1, "prompt tokens");
  flags::int32(command, "--output-len", args.output_len, 1, "generated tokens");
  flags::int32(command, "--batch-size", args.batch_size, 1, "requests at once");
  declare_bench_decoding(command, args.decoding);
  flags::int32(command, "--num-iters-warmup", args.num_iters_warmup, 0, "runs before the measured ones");
  flags::int32(command, "--num-iters", args.num_iters, 1, "measured runs");
  flags::text(command, "--output-json", args.output_json, "FILE", "figures as JSON; -: stdout, no table");
}

void declare_throughput(CLI::App& command, BenchThroughputArgs& args) {
  flags::int32(command, "--input-len", args.input_len, 1, "prompt tokens of each request");
  flags::int32(command, "--output-len", args.output_len, 1, "generated tokens of each request");
  flags::int32(command, "--num-prompts", args.num_prompts, 1, "requests, all there from the start");
  declare_bench_decoding(command, args.decoding);
  flags::int32(command, "--num-iters", args.num_iters, 1, "measured runs");
  flags::text(command, "--output-json", args.output_json, "FILE", "figures as JSON; -: stdout, no table");
}

void declare_kv_managers(CLI::App& command, BenchKvManagersArgs& args) {
  flags::int32(command, "--num-prompts", args.num_prompts, 1, "requests, all there from the start");
  flags::int32(command, "--num-iters", args.num_iters, 1, "rounds of serving; medians are told");
  flags::choice(command, "--only", args.only, {"kernel", "map", "serve"}, "one part; else all");
  flags::text(command, "--output-json", args.output_json, "FILE", "figures as JSON");
  flags::text(command, "--output-svg", args.output_svg, "FILE", "figures as bars");
}

void declare_calibrate(CLI::App& command, CalibrateArgs& args) {
  flags::text(command, "-o,--output", args.output, "FILE", "the cost model; -: stdout")->default_str("-");
  flags::texts(command, "--log", args.logs, "FILE",
               "instead of measuring: the steps of a log of serve --record; may be repeated");
  flags::int32(command, "--max-batch", args.max_batch, 1, "sequences at once", 256);
  flags::int32(command, "--max-context", args.max_context, 64, "tokens of the longest prompts");
}

void declare_perplexity(CLI::App& command, PerplexityArgs& args) {
  flags::text(command, "-f,--file", args.file, "FILE", "UTF-8 text; -: stdin")->required();
  flags::int32(command, "--context", args.context, 2, "tokens in a window");
}

void declare_simulate(CLI::App& command, SimulateArgs& args) {
  flags::text(command, "--cost-model", args.cost_model, "NAME|FILE",
              "what steps cost: GPU/MODEL/tpN such as a100-40gb/opt-13b/tp1, or a JSON file");
  command.add_flag("--print-cost-model", args.print_cost_model, "the cost model as JSON, and nothing else");
  flags::text(command, "--replay", args.replay, "FILE",
              "instead: a log of serve --record, which must come to the same decisions");
  flags::text(command, "--compare", args.compare, "FILE",
              "instead: latencies of such a log beside those simulated from its arrivals and --cost-model");
  flags::text(command, "--workload", args.workload, "SPEC",
              "sharegpt, alpaca, uniform or trace:FILE, with :KEY=VALUE,... such as rate=2,duration=3600");
  flags::text(command, "--trace", args.trace, "FILE", "a recorded workload; short for --workload trace:FILE");
  flags::int32(command, "--replicas", args.replicas, 1, "engines", 4096);
  flags::choice(command, "--router", args.router, {"round-robin", "least-loaded", "prefix-aware"},
                "which replica gets a request");
  flags::number(command, "--max-seconds", args.max_seconds, 0, 1e9,
                "of simulated time; 0: until all is served");
  flags::text(command, "--output-json", args.output_json, "FILE", "figures as JSON; -: stdout, no table");
  flags::text(command, "--output-csv", args.output_csv, "FILE", "one line a request");
  flags::text(command, "--plot", args.plot, "FILE", "SVG of load and memory against time");
  const auto store_seed = [&args](std::int64_t seed) { args.fault_seed = static_cast<std::uint64_t>(seed); };
  flags::integer(command, "--fault-seed", 0, std::numeric_limits<std::int64_t>::max(), store_seed,
                 "clients leave, steps stall, arrivals come in bursts; invariants are checked at every step");
  flags::int32(command, "--fault-runs", args.fault_runs, 0,
               "instead: so many small engines of every mode, drawn from --fault-seed on");
}

void declare_plan(CLI::App& command, PlanArgs& args) {
  flags::text(command, "--cost-model", args.cost_model, "NAME|FILE", "what steps cost, as for simulate");
  flags::text(command, "--workload", args.workload, "SPEC", "as for simulate, without a rate");
  flags::choice(command, "--router", args.router, {"round-robin", "least-loaded", "prefix-aware"},
                "which replica gets a request");
  flags::int32(command, "--replicas", args.replicas, 1, "how many there are: the rate is searched for", 4096);
  const auto store_rate = [name = "--rate", &args](double rate) {
    if (!(rate > 0 && rate < 1e6)) throw CLI::ValidationError(name, "must be above 0 and below 1e6");
    args.rate = rate;
  };
  command
      .add_option_function<double>("--rate", store_rate, "requests a second: the replicas are searched for")
      ->type_name("X");
  flags::int32(command, "--seeds", args.seeds, 1,
               "draws of the workload; the answer is the middle one, with its interval", 100);
  flags::number(command, "--ttft-p99", args.ttft_ms, 0.001, 1e9, "limit of the time to first token, ms");
  flags::number(command, "--tpot-p99", args.tpot_ms, 0.001, 1e9, "limit of the time per output token, ms");
  flags::text(command, "--output-json", args.output_json, "FILE", "the answer as JSON; -: stdout, no text");
}

// A subcommand without an engine: its own flags only.
template <class Args>
void add_plain_command(CLI::App& parent, Action& action, const char* name, const char* help,
                       int (*run)(const Args&), void (*declare)(CLI::App&, Args&)) {
  CLI::App* command = parent.add_subcommand(name, help);
  const auto args = std::make_shared<Args>();
  declare(*command, *args);
  command->final_callback([args, run, &action] { action = [args, run] { return run(*args); }; });
}

void declare_inspect(CLI::App& command, InspectArgs& args) {
  flags::text(command, "MODEL", args.path, "PATH",
              "folder, .gguf, .safetensors, config.json, tokenizer.json, or ORG/NAME in the local cache")
      ->required();
  command.add_flag("--json", args.json, "one JSON object instead of a table");
}

void declare_tokenize(CLI::App& command, TokenizeArgs& args) {
  flags::text(command, "TOKENIZER", args.tokenizer, "PATH",
              "folder, tokenizer.json, SentencePiece tokenizer.model, or .gguf with or without weights")
      ->required();
  flags::text(command, "-i,--input", args.input, "FILE",
              "one {\"text\": …} a line; with --decode {\"ids\": […]}")
      ->required();
  command.add_flag("--decode", args.decode, "ids to text");
  command.add_flag("--add-special-tokens", args.add_special_tokens,
                   "BOS and EOS as the tokenizer wants them");
}

void declare_render(CLI::App& command, RenderArgs& args) {
  flags::text(command, "--template", args.template_path, "FILE", "Jinja chat template")->required();
  flags::text(command, "-i,--input", args.input_path, "FILE",
              "a context a line: messages, tools, add_generation_prompt, bos_token, …, now")
      ->required();
  flags::on_off(command, "trim-blocks", args.trim_blocks, "a block's newline is dropped")->default_str("on");
  flags::on_off(command, "lstrip-blocks", args.lstrip_blocks, "the space before a block is dropped")
      ->default_str("on");
}

void declare_parse(CLI::App& command, ParseArgs& args) {
  flags::text(command, "--tool-call-parser", args.tool_parser, "NAME",
              "vLLM's name of how calls are written, or auto");
  flags::text(command, "--reasoning-parser", args.reasoning_parser, "NAME", "likewise of the reasoning");
  flags::text(command, "-i,--input", args.input, "FILE",
              "a model's output a line: text, tools, tool_choice, starts_in_reasoning")
      ->required();
  flags::text(command, "--template", args.template_path, "FILE", "the chat template that auto looks at");
  command.add_flag("--every-cut", args.every_cut,
                   "each text also in pieces, cut at every place: the message must stay the same");
}

void add_commands(CLI::App& app, Action& action) {
  add_engine_command<ServeArgs>(app, action, "serve", "OpenAI-compatible server", run_serve, declare_serve);
  add_engine_command<ChatArgs>(app, action, "chat", "talk to a model in the terminal", run_chat,
                               declare_chat);
  add_engine_command<GenerateArgs>(app, action, "generate", "completions for a file of requests",
                                   run_generate, declare_generate);
  CLI::App* bench = app.add_subcommand("bench", "how fast the engine is, or a server");
  bench->require_subcommand(0, 1);
  add_engine_command<BenchLatencyArgs>(*bench, action, "latency", "one batch at a time", run_bench_latency,
                                       declare_latency);
  add_engine_command<BenchThroughputArgs>(*bench, action, "throughput", "many requests at once",
                                          run_bench_throughput, declare_throughput);
  add_engine_command<BenchKvManagersArgs>(*bench, action, "kv-managers",
                                          "paged, virtual and reserved memory side by side",
                                          run_bench_kv_managers, declare_kv_managers);
  add_plain_command<BenchServeArgs>(
      *bench, action, "serve", "load on an OpenAI-compatible server, as `vllm bench serve`",
      [](const BenchServeArgs& args) { return exit_code(run_bench_serve(args)); }, declare_bench_serve);
  add_engine_command<SimulateArgs>(app, action, "simulate", "the engine on a virtual clock and a cost model",
                                   run_simulate, declare_simulate);
  add_engine_command<CalibrateArgs>(*bench, action, "calibrate", "a cost model of this machine, for simulate",
                                    run_bench_calibrate, declare_calibrate);
  add_engine_command<PlanArgs>(app, action, "plan", "which rate machines can hold, or how many a rate needs",
                               run_plan, declare_plan);
  add_engine_command<PerplexityArgs>(app, action, "perplexity", "how well a model predicts a text",
                                     run_perplexity, declare_perplexity);
  add_engine_command<DoctorArgs>(app, action, "doctor", "check this machine and the engine on it", run_doctor,
                                 nullptr);
  add_plain_command<InspectArgs>(app, action, "inspect", "what a model file holds, and the memory it takes",
                                 run_inspect, declare_inspect);
  add_plain_command<TokenizeArgs>(app, action, "tokenize", "text to token ids, and back", run_tokenize,
                                  declare_tokenize);
  add_plain_command<ParseArgs>(app, action, "parse", "what a model wrote: reasoning, content, tool calls",
                               run_parse, declare_parse);
  add_plain_command<RenderArgs>(app, action, "render", "a chat template's prompt for each context",
                                run_render, declare_render);
}

// vLLM's short forms have two letters, which the parser would read as two flags.
std::string without_two_letters(const std::string& argument) {
  if (argument == "-tp" || argument == "-pp" || argument == "-dp") return "-" + argument;
  return argument;
}

// "--max_num_seqs" -> "--max-num-seqs": vLLM takes both. Values after '=' are left alone.
std::string with_dashes(std::string argument) {
  if (argument.starts_with("--")) {
    const std::size_t end = std::min(argument.find('='), argument.size());
    std::replace(argument.begin(), argument.begin() + static_cast<std::ptrdiff_t>(end), '_', '-');
  }
  return argument;
}

std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

// The innermost subcommand that was named.
const CLI::App& chosen_command(const CLI::App& app) {
  const CLI::App* command = &app;
  for (auto parsed = command->get_subcommands(); !parsed.empty(); parsed = command->get_subcommands())
    command = parsed.front();
  return *command;
}

std::string describe_unexpected(const CLI::App& app) {
  const CLI::App& command = chosen_command(app);
  const std::vector<std::string> left = app.remaining(true);
  const auto flag =
      std::find_if(left.begin(), left.end(), [](const std::string& s) { return s.starts_with("-"); });
  if (flag != left.end()) {
    const std::string name = flag->substr(0, flag->find('='));
    return concat("unknown flag ", name, suggestion(name, flag_names(command)));
  }
  const std::string word = left.empty() ? std::string() : left.front();
  std::vector<std::string> commands;
  for (const CLI::App* sub : command.get_subcommands(nullptr)) commands.push_back(sub->get_name());
  if (!commands.empty()) return concat("unknown command '", word, "'", suggestion(word, commands));
  return concat("unexpected argument '", word, "'");
}

}  // namespace

int run_cli(int argc, char** argv) {
  // A model file that shrinks while it is mapped ends the program with a sentence, not a signal.
  install_sigbus_handler();
  Action action;
  CLI::App app(
      "Serves large language models from a paged KV cache. Flags of a command: pagoda COMMAND --help",
      "pagoda");
  app.set_help_flag("-h,--help", "this text");
  app.set_version_flag("--version", concat("pagoda ", version()), "version");
  app.require_subcommand(0, 1);
  std::vector<std::string> arguments;
  try {
    add_commands(app, action);
    for (int i = argc - 1; i > 0; --i)
      arguments.push_back(with_dashes(without_two_letters(argv[i])));  // CLI11 wants them reversed
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    std::fputs(help_text(chosen_command(app)).c_str(), stdout);
    return 0;
  } catch (const CLI::CallForVersion& text) {
    std::printf("%s\n", text.what());
    return 0;
  } catch (const CLI::ExtrasError&) {
    return fail(describe_unexpected(app));
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string message = error.what();  // "--port: 1 required N missing"
    return fail(concat(message.substr(0, message.find(':')), " needs a value"));
  } catch (const CLI::Error& error) {
    return fail(error.what());
  }
  if (!action) {
    std::fputs(help_text(chosen_command(app)).c_str(), stderr);
    return kExitUsage;
  }
  const Status status = configure_logging();
  return status.ok() ? action() : exit_code(status);
}

}  // namespace pagoda
