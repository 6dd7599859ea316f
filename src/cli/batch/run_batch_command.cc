#include "cli/batch/run_batch_command.h"

#include <boost/json/serialize.hpp>
#include <condition_variable>
#include <ctime>
#include <deque>
#include <fstream>
#include <map>
#include <mutex>

#include "api/answer_memory.h"
#include "api/field_reader.h"
#include "api/json.h"
#include "base/assign_or_return.h"
#include "base/memory_budget.h"
#include "base/strings.h"
#include "cli/assembly/assemble.h"
#include "cli/batch/batch_progress.h"
#include "cli/commands/progress_bar.h"
#include "cli/exit_code.h"
#include "cli/flags/flag_values.h"
#include "server/generation.h"
#include "server/protocols.h"

namespace pagoda {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;
constexpr std::size_t kMaxLine = std::size_t{64} << 20;

// Signals the lines whose calls have new output.
class Bell {
 public:
  void ring(std::int64_t line) {
    {
      const std::lock_guard lock(mutex_);
      rung_.push_back(line);
    }
    changed_.notify_one();
  }
  std::deque<std::int64_t> wait() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(200), [this] { return !rung_.empty(); });
    return std::exchange(rung_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::int64_t> rung_;
};

class BatchRun {
 public:
  BatchRun(AssembledEngine& engine, BatchProgress& progress, std::int64_t num_lines)
      : engine_(engine),
        progress_(progress),
        bar_("run-batch", num_lines, "lines"),
        protocols_(all_protocols()),
        memory_(std::int64_t{2} << 30),
        account_(*memory_.add_account("answers", memory_.limit(), memory_.limit())) {}

  Status run(std::istream& input, std::size_t max_running) {
    bool more = true;
    while (status_.ok() && (more || !running_.empty())) {
      while (more && running_.size() < max_running && status_.ok()) more = take_line(input);
      if (running_.empty()) continue;
      if (!engine_.client().healthy()) return unavailable("the engine has stopped");
      for (const std::int64_t line : bell_.wait()) look_at(line);
    }
    return status_;
  }

 private:
  struct Line {
    std::string custom_id;
    bool has_id = false;
    const Protocol* protocol = nullptr;
    std::unique_ptr<Generation> generation;
    std::string body;
  };

  // Returns false at the end of the input.
  bool take_line(std::istream& input) {
    std::string text;
    if (!std::getline(input, text)) return false;
    ++number_;
    if (text.find_first_not_of(" \t\r") == std::string::npos) return true;
    const Result<boost::json::value> value =
        text.size() > kMaxLine ? Result<boost::json::value>(invalid_argument("the line is too long"))
                               : parse_json(text);
    Line line;
    const boost::json::object* object = value ? value->if_object() : nullptr;
    if (object == nullptr) {
      if (!progress_.answered(number_))
        write_failure(line, "invalid_json",
                      concat("line ", number_, " is not a JSON object",
                             value ? std::string() : concat(": ", value.error().message())));
      return true;
    }
    FieldReader fields(*object);
    const std::optional<std::string> custom_id = fields.string("custom_id", 4096);
    line.custom_id = custom_id.value_or("");
    line.has_id = custom_id.has_value();
    if (progress_.answered(number_)) {
      keep(progress_.check(number_, line.custom_id));
      bar_.update(++num_done_);
      return true;
    }
    const std::string method = fields.string("method", 16).value_or("POST");
    const std::optional<std::string> url = fields.string("url", 4096);
    const boost::json::object* body = fields.object("body");
    if (fields.ok() && !url) fields.fail("url", "is required");
    if (fields.ok() && body == nullptr && method == "POST") fields.fail("body", "is required");
    if (!fields.ok())
      write_failure(line, "invalid_request", concat("line ", number_, ": ", fields.status().message()));
    else
      ask(std::move(line), method, *url, body);
    return true;
  }

  void ask(Line line, std::string_view method, std::string_view url, const boost::json::object* body) {
    const FoundRoute route = find_api_route(protocols_, method, url);
    line.protocol = route.protocol == nullptr ? protocols_.front() : route.protocol;
    if (route.row == nullptr)
      return write_error(line,
                         not_found(concat("There is nothing at ", method, " ", to_valid_utf8(url), ".")));
    ApiCall call;
    call.method = route.row->facts.method;
    call.parameter = route.parameter;
    if (body != nullptr) call.body = boost::json::serialize(*body);
    call.id = batch_id(number_);
    call.created = std::time(nullptr);
    if (const auto* answer = std::get_if<AnswerHandler>(&route.row->handler)) {
      Result<ApiAnswer> made = (*answer)(call, engine_.api());
      return made ? write_answer(line, made->status, made->body) : write_error(line, made.error());
    }
    Result<ApiGeneration> made = std::get<GenerationHandler>(route.row->handler)(call, engine_.api());
    if (!made) return write_error(line, made.error());
    if (made->at_once || made->answer->streaming())
      return write_error(line, invalid_argument(concat("'", made->at_once ? "background" : "stream",
                                                       "' is not for batches.")));
    start(std::move(line), *std::move(made));
  }

  void start(Line line, ApiGeneration call) {
    const std::int64_t bytes = answer_bytes(call.requests);
    std::optional<MemoryReservation> held;
    while (!(held = memory_.try_reserve(account_, bytes))) {
      if (running_.empty())
        return write_error(
            line, invalid_argument("The answer could need more memory than is available for answers."));
      for (const std::int64_t number : bell_.wait()) look_at(number);
      if (!status_.ok() || !engine_.client().healthy()) return;
    }
    line.generation = std::make_unique<Generation>(std::move(call), engine_.client(), *std::move(held),
                                                   [this, number = number_] { bell_.ring(number); });
    const std::size_t num_requests = line.generation->num_requests();
    if (Status refused = line.generation->start(next_request_, clock_.now(), /*deadline=*/0); !refused.ok())
      return write_error(line, refused);
    next_request_ += num_requests;
    running_.emplace(number_, std::move(line));
    bell_.ring(number_);
  }

  void look_at(std::int64_t number) {
    const auto place = running_.find(number);
    if (place == running_.end()) return;
    Line& line = place->second;
    while (line.generation->pump(line.body, line.body.size() + kPiece)) {
    }
    if (!line.generation->finished()) return;
    Line ended = std::move(line);
    running_.erase(place);
    const Status& error = ended.generation->answer().error();
    std::swap(number_, number);
    error.ok() ? write_answer(ended, 200, ended.body) : write_error(ended, error);
    std::swap(number_, number);
  }

  void begin(JsonWriter& json, const Line& line) const {
    json.begin_object().key("id").string(batch_id(number_)).key("custom_id");
    line.has_id ? json.string(line.custom_id) : json.null();
  }
  void write_error(const Line& line, const Status& error) {
    const ApiError told = api_error(error);
    write_answer(line, told.status, line.protocol->error_body(told));
  }
  void write_answer(const Line& line, int status, std::string_view body) {
    std::string out;
    JsonWriter json(out);
    begin(json, line);
    json.key("response").begin_object().key("status_code").integer(status);
    json.key("request_id").string(batch_id(number_)).key("body").raw(body).end_object();
    json.key("error").null().end_object();
    write(out);
  }
  // Writes the error of a line that is not a valid call.
  void write_failure(const Line& line, std::string_view code, std::string_view message) {
    std::string out;
    JsonWriter json(out);
    begin(json, line);
    json.key("response").null().key("error").begin_object().key("code").string(code);
    json.key("message").string(to_valid_utf8(message)).end_object().end_object();
    write(out);
  }
  void write(std::string_view out) {
    keep(progress_.write(out));
    bar_.update(++num_done_);
  }
  void keep(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  AssembledEngine& engine_;
  BatchProgress& progress_;
  ProgressBar bar_;
  const std::vector<const Protocol*> protocols_;
  SteadyClock clock_;
  MemoryBudget memory_;
  const MemoryBudget::AccountId account_;
  Bell bell_;
  std::map<std::int64_t, Line> running_;  // by line number
  std::int64_t number_ = 0;               // the current line
  std::int64_t num_done_ = 0;
  std::uint64_t next_request_ = 1;
  Status status_;
};

}  // namespace

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

Status run_batch(const RunBatchArgs& args) {
  std::ifstream input(args.input);
  // A folder can be opened, but not read.
  if (!input || (input.peek(), input.bad())) return not_found(file_failure("read", args.input));
  input.clear();  // an empty file is already at its end
  std::int64_t num_lines = 0;
  for (std::string line; std::getline(input, line);)
    num_lines += line.find_first_not_of(" \t\r") != std::string::npos;
  input.clear();
  input.seekg(0);
  PAGODA_ASSIGN_OR_RETURN(auto progress, BatchProgress::open(args.output));
  EngineFlags flags = args.engine;
  const std::int32_t max_running = 2 * flags.max_num_seqs;
  flags.max_queue = std::max(flags.max_queue, max_running + 2048);  // a line may contain many prompts
  PAGODA_ASSIGN_OR_RETURN(auto engine, AssembledEngine::create(flags, AssembledEngine::Report::quiet));
  if (engine->tokenizer() == nullptr)
    return invalid_argument("the model has no tokenizer; give one with --tokenizer");
  Status status;
  {
    BatchRun run(*engine, progress, num_lines);
    status = run.run(input, static_cast<std::size_t>(max_running));
  }
  engine->stop();
  if (status.ok()) engine->finish_weight_writing();
  return status;
}

}  // namespace pagoda
