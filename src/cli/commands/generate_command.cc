#include "cli/commands/generate_command.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <unordered_map>

#include "api/error_body.h"
#include "api/errors.h"
#include "api/openai/request_parser.h"
#include "api/openai/response_builder.h"
#include "base/assign_or_return.h"
#include "base/strings.h"
#include "cli/assembly/assemble.h"
#include "cli/assembly/hub_settings.h"
#include "cli/commands/output_collector.h"
#include "cli/commands/progress_bar.h"
#include "cli/commands/streamed_answer.h"
#include "cli/commands/typed_words.h"
#include "cli/exit_code.h"
#include "cli/flags/flag_values.h"

namespace pagoda {
namespace {

// An input line until it becomes an output line.
struct Line {
  std::unique_ptr<ResponseBuilder> builder;  // null: `body` is the complete answer
  std::vector<RequestId> requests;           // one per prompt
  std::string body;
};

class GenerateRun {
 public:
  GenerateRun(AssembledEngine& engine, std::istream& input, std::ostream& output, std::string output_path,
              std::int64_t num_lines, bool from_stdin)
      : engine_(engine),
        input_(input),
        output_(output),
        output_path_(std::move(output_path)),
        bar_("generate", num_lines, "lines"),
        from_stdin_(from_stdin) {}

  Status run(std::int32_t max_in_flight) {
    for (;;) {
      // Do not delay finished answers while a pipe has no next line yet.
      while (in_flight_ < max_in_flight && (lines_.empty() || input_is_ready()) && read_line()) {
      }
      if (!write_finished()) return internal_error(file_failure("write", output_path_));
      if (lines_.empty() && !input_) break;
      if (lines_.empty()) continue;
      for (OutputCollector::Item& item : collector_.take()) deliver(std::move(item.output));
    }
    // An invalid line gets an error as its answer, but a dead engine is a failure of the command.
    if (!engine_.client().healthy())
      return unavailable(concat("the engine has stopped; ", num_errors_, " lines of the output are errors"));
    return ok_status();
  }

 private:
  // True if a read would not block, including at the end of the input.
  bool input_is_ready() const {
    if (input_.rdbuf()->in_avail() != 0) return true;
    pollfd waited = {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    return !from_stdin_ || poll(&waited, 1, 0) != 0;
  }
  // Reads the next input line into lines_. Returns false at the end of the input.
  bool read_line() {
    std::string text;
    do {
      if (!std::getline(input_, text)) return false;
    } while (text.find_first_not_of(" \t\r") == std::string::npos);
    lines_.emplace_back();
    Line& line = lines_.back();
    const std::string id = std::to_string(++num_read_);
    auto call = parse_call(CallKind::completion, text, {.id = id, .created = created_}, engine_.api());
    if (!call) {
      line.body = openai_error_body(api_error(call.error()));
      return true;
    }
    call->response.stream = false;
    line.builder = std::make_unique<ResponseBuilder>(std::move(call->response), engine_.api());
    for (std::size_t prompt = 0; prompt < call->requests.size(); ++prompt)
      submit(line, prompt, std::move(call->requests[prompt]));
    return true;
  }

  void submit(Line& line, std::size_t prompt, Request request) {
    request.id = RequestId{++next_request_};
    request.arrival_time = SteadyClock().now();
    line.requests.push_back(request.id);
    const RequestId id = request.id;
    if (Status status = engine_.client().submit(std::move(request), collector_.make_sink()); !status.ok()) {
      line.builder->fail(std::move(status));
      return;
    }
    owners_[id] = {&line, prompt};
    ++in_flight_;
  }

  void deliver(RequestOutput output) {
    const auto owner = owners_.find(output.id);
    if (owner == owners_.end()) return;
    const auto [line, prompt] = owner->second;
    if (output.finished) {
      owners_.erase(owner);
      --in_flight_;
    }
    line->builder->add(prompt, std::move(output));
    for (const SequenceStop& stop : line->builder->take_stops()) {
      engine_.client().abort_sequence(line->requests[stop.prompt_index], stop.sequence);
    }
  }

  bool engine_done_with(const Line& line) const {
    return std::none_of(line.requests.begin(), line.requests.end(),
                        [this](RequestId id) { return owners_.contains(id); });
  }

  // Writes finished answers from the head of the queue, in input order. Returns false if writing fails.
  bool write_finished() {
    while (!lines_.empty()) {
      Line& line = lines_.front();
      if (line.builder != nullptr) {
        // The engine may still refer to this line after its text is complete.
        if (!line.builder->finished() || !engine_done_with(line)) return true;
        line.body = line.builder->error().ok() ? line.builder->body()
                                               : openai_error_body(api_error(line.builder->error()));
      }
      num_errors_ += line.builder == nullptr || !line.builder->error().ok();
      output_ << line.body << '\n';
      output_.flush();
      if (!output_) return false;
      lines_.pop_front();
      bar_.update(++num_written_);
    }
    return true;
  }

  AssembledEngine& engine_;
  std::istream& input_;
  std::ostream& output_;
  const std::string output_path_;
  ProgressBar bar_;
  const bool from_stdin_;
  OutputCollector collector_;
  std::deque<Line> lines_;  // a deque: owners_ points to its elements
  std::unordered_map<RequestId, std::pair<Line*, std::size_t>> owners_;
  std::int64_t created_ = static_cast<std::int64_t>(std::time(nullptr));
  std::int64_t num_read_ = 0, num_written_ = 0, num_errors_ = 0;
  std::uint64_t next_request_ = 0;
  std::int32_t in_flight_ = 0;
};

// Returns the number of lines for the progress bar; 0 if unknown. A pipe can be read only once, so its lines
// are not counted.
std::int64_t count_lines(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return 0;
  std::ifstream file(path);
  std::int64_t count = 0;
  for (std::string line; std::getline(file, line);)
    count += line.find_first_not_of(" \t\r") != std::string::npos;
  return count;
}

// Writes the answer to a typed prompt as it is generated.
Status write_text(AssembledEngine& engine, const std::string& prompt, std::int32_t max_tokens,
                  std::ostream& output, const std::string& output_path) {
  const boost::json::object body = {{"prompt", prompt}, {"max_tokens", max_tokens}};
  const AnswerWatcher watcher = {.show = [&output](std::string_view piece) { output << piece << std::flush; },
                                 .interrupted = {}};
  PAGODA_RETURN_IF_ERROR(stream_answer(engine, CallKind::completion, body, RequestId{1}, watcher));
  output << std::endl;
  return output ? ok_status() : internal_error(file_failure("write", output_path));
}

}  // namespace

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

Status run_generate(const GenerateArgs& args) {
  std::ifstream input_file;
  std::int64_t num_lines = 0;
  EngineFlags flags = args.engine;
  std::string prompt;  // the typed prompt
  const bool is_typed = args.input.empty();
  if (is_typed) {
    PAGODA_ASSIGN_OR_RETURN(auto words, typed_words(args.first, args.second, !flags.model.empty()));
    if (!words.model.empty()) flags.model = words.model;
    prompt = words.text;
  } else if (!args.second.empty()) {
    return invalid_argument(concat("'", args.second, "': give a prompt or --input, not both"));
  } else if (!args.first.empty()) {
    flags.model = args.first;
  }
  PAGODA_RETURN_IF_ERROR(fetch_if_missing(flags));
  const bool from_stdin = args.input == "-";
  // So that in_avail() of std::cin includes the bytes read ahead.
  if (from_stdin) std::ios::sync_with_stdio(false);
  if (!is_typed && !from_stdin) {
    num_lines = count_lines(args.input);
    input_file.open(args.input);
    // A folder can be opened, but not read.
    std::error_code error;
    if (!input_file) return not_found(file_failure("read", args.input));
    if (std::filesystem::is_directory(args.input, error))
      return not_found(concat("cannot read ", args.input, ": it is a folder"));
  }
  std::ofstream output_file;
  if (args.output != "-") {
    output_file.open(args.output);
    if (!output_file) return invalid_argument(file_failure("write", args.output));
  }
  // A line may contain many prompts; the queue is sized for the requests that this loop admits.
  const std::int32_t max_in_flight = 2 * flags.max_num_seqs;
  flags.max_queue = std::max(flags.max_queue, max_in_flight + 2048);
  PAGODA_ASSIGN_OR_RETURN(auto engine, AssembledEngine::create(flags, AssembledEngine::Report::quiet));
  if (engine->tokenizer() == nullptr)
    return invalid_argument("the model has no tokenizer; give one with --tokenizer");
  std::ostream& output = args.output == "-" ? std::cout : output_file;
  const std::string output_path = args.output == "-" ? "standard output" : args.output;
  std::istream& input = from_stdin ? std::cin : input_file;
  const Status status =
      is_typed ? write_text(*engine, prompt, args.max_tokens, output, output_path)
               : GenerateRun(*engine, input, output, output_path, num_lines, from_stdin).run(max_in_flight);
  engine->stop();
  if (status.ok()) engine->finish_weight_writing();
  return status;
}

}  // namespace pagoda
