#include "cli/simulate/served_steps.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "base/assign_or_return.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/strings.h"
#include "cli/commands/progress_bar.h"
#include "cli/serve/serve_command.h"
#include "load/http_load.h"
#include "load/request_body.h"

namespace pagoda {
namespace {

using std::chrono::milliseconds;

constexpr double kStartSeconds = 600;  // a large model may be read from a slow disk
// Duration of a turn with one number of clients; short, because the machine's speed changes over minutes.
constexpr double kTurnSeconds = 3;
constexpr std::size_t kMinRequests = 200;
constexpr double kLonger = 4;  // maximum duration as a multiple of the requested one
constexpr const char* kModelName = "calibrated";
constexpr std::int32_t kMinPrompt = 8, kMinAnswer = 4, kMaxAnswer = 64;
// Used in every other turn, because with long prompts few steps are only decodes.
constexpr std::int32_t kShortPrompt = 64, kLongAnswer = 256;
// Divides the number of clients with long prompts, whose running requests must end after the turn.
constexpr std::int32_t kFewer = 4;

// A temporary folder that is deleted with its contents.
class TemporaryFolder {
 public:
  static Result<TemporaryFolder> create() {
    std::string path = (std::filesystem::temp_directory_path() / "pagoda-calibrate-XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) return unavailable(concat("cannot create the folder ", path));
    return TemporaryFolder(std::move(path));
  }
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  std::string file(std::string_view name) const { return concat(path_, "/", name); }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

Result<std::int32_t> free_port() {
  const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool found = probe >= 0 && bind(probe, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     getsockname(probe, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  if (probe >= 0) close(probe);
  if (!found) return unavailable("no free port on 127.0.0.1");
  return ntohs(address.sin_port);
}

// `pagoda serve` in a child process that ends with this process.
class ServerProcess {
 public:
  ServerProcess(const EngineFlags& flags, const std::string& output) : output_(output) {
    std::fflush(nullptr);  // otherwise the child would write the buffered output again
    const pid_t parent = getpid();
    child_ = fork();
    if (child_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(1);
    const int file = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    const Status status = run_serve({.engine = flags});
    if (!status.ok()) std::fprintf(stderr, "%s\n", status.message().c_str());
    std::fflush(nullptr);
    _exit(status.ok() ? 0 : 1);
  }
  ServerProcess(const ServerProcess&) = delete;
  ~ServerProcess() { (void)stop(); }

  bool running() {
    if (child_ > 0 && waitpid(child_, &state_, WNOHANG) == child_) child_ = -1;
    return child_ > 0;
  }
  // Stops the server after a drain, so that its log is complete.
  Status stop() {
    if (child_ > 0) {
      kill(child_, SIGTERM);
      waitpid(child_, &state_, 0);
      child_ = -1;
    }
    if (WIFEXITED(state_) && WEXITSTATUS(state_) == 0) return ok_status();
    std::ifstream said(output_);
    std::string line, last;
    while (std::getline(said, line)) last = line.empty() ? last : line;
    return unavailable(concat("the server ended with an error: ", last));
  }

 private:
  const std::string output_;
  pid_t child_ = -1;
  int state_ = 0;
};

// Generates requests until `end`: prompts and answers of all sizes up to the limits, small ones more often.
class Mixture final : public Workload {
 public:
  Mixture(std::int32_t most_prompt, std::int32_t most_answer, std::uint64_t turn, TimeNs end)
      : most_prompt_(most_prompt), most_answer_(most_answer), turn_(turn), end_(end) {}
  Result<std::optional<WorkloadRequest>> next() override {
    if (SteadyClock().now() >= end_) return std::optional<WorkloadRequest>();
    WorkloadRequest out;
    out.prompt_tokens = between(kMinPrompt, most_prompt_);
    out.output_tokens = between(kMinAnswer, most_answer_);
    return std::optional(out);
  }

 private:
  std::int32_t between(double low, double high) {
    const double share = random_uniform(turn_, 1, draws_++);
    return static_cast<std::int32_t>(low * std::pow(high / low, share));
  }
  const std::int32_t most_prompt_, most_answer_;
  const std::uint64_t turn_;
  const TimeNs end_;
  std::uint64_t draws_ = 0;
};

Status wait_until_ready(ServerProcess& server, const LoadOptions& options) {
  const SteadyClock clock;
  const TimeNs end = clock.now() + static_cast<TimeNs>(kStartSeconds * 1e9);
  while (clock.now() < end) {
    if (!server.running()) return server.stop();
    if (const auto answer = fetch(options, "/health"); answer && answer->status == 200) return ok_status();
    std::this_thread::sleep_for(milliseconds(50));
  }
  return unavailable(concat("the server was not ready within ", kStartSeconds, " s"));
}

// The sum of times to first token over all requests so far, from the server's metrics.
Result<double> engine_ttft_sum(const LoadOptions& options) {
  PAGODA_ASSIGN_OR_RETURN(const auto answer, fetch(options, "/metrics"));
  double sum = 0;
  bool found = false;
  std::istringstream lines(answer.body);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("time_to_first_token_seconds_sum") == std::string::npos || line.starts_with('#')) continue;
    sum += std::strtod(line.c_str() + line.rfind(' '), nullptr);
    found = true;
  }
  return found ? Result<double>(sum)
               : unavailable("the server's metrics have no vllm:time_to_first_token_seconds");
}

// Returns the delay from the engine's first token until clients see it: the mean of each turn, and the median
// over turns.
Result<double> ask(const LoadOptions& base, const ServedLoad& load) {
  std::vector<std::int32_t> clients;
  for (std::int32_t count = 1; count < load.max_batch; count *= 2) clients.push_back(count);
  clients.push_back(load.max_batch);
  const SteadyClock clock;
  const TimeNs start = clock.now(), end = start + static_cast<TimeNs>(load.seconds * 1e9);
  // Each number of clients has at least two turns: with short prompts and long answers, and with prompts of
  // all lengths.
  const std::size_t all_turns = 2 * clients.size();
  const double turn_s = std::min(kTurnSeconds, load.seconds / static_cast<double>(all_turns));
  ProgressBar bar("calibrate", static_cast<std::int64_t>(load.seconds), "seconds");
  // On a machine with other load the measurement may take longer, so that there are enough steps of each
  // kind.
  const TimeNs latest = start + static_cast<TimeNs>(kLonger * load.seconds * 1e9);
  std::size_t asked = 0;
  double engine_ttft = 0;
  std::vector<double> outside;  // mean delay of each turn
  const auto enough = [&] { return asked >= kMinRequests || clock.now() >= latest; };
  for (std::uint64_t turn = 0; turn < all_turns || clock.now() < end || !enough(); ++turn) {
    LoadOptions options = base;
    const bool is_short = turn % 2 == 0;
    const std::int32_t count = clients[turn / 2 % clients.size()];
    options.max_concurrency = is_short ? count : std::max(1, count / kFewer);
    BodyOptions body;
    body.token_high = std::clamp(load.vocab_size - 1, 1, body.token_high);
    body.token_low = std::min(body.token_low, body.token_high);
    body.model = kModelName;
    body.ignore_eos = true;
    body.extra_members = ",\"temperature\":0";
    body.seed = turn;
    options.body = [&body](const WorkloadRequest& request, std::uint64_t index) {
      return write_body(request, index, body);
    };
    Mixture mixture(is_short ? std::min(kShortPrompt, load.max_context) : load.max_context,
                    is_short ? std::clamp(load.max_context, kMaxAnswer, kLongAnswer) : kMaxAnswer, turn,
                    clock.now() + static_cast<TimeNs>(turn_s * 1e9));
    PAGODA_ASSIGN_OR_RETURN(const auto result, run_load(mixture, options));
    const auto failed = std::ranges::find_if(result.outcomes, [](const auto& o) { return !o.error.empty(); });
    if (failed != result.outcomes.end())
      return unavailable(concat("a request of the calibration failed: ", failed->error));
    asked += result.outcomes.size();
    PAGODA_ASSIGN_OR_RETURN(const auto sum, engine_ttft_sum(base));
    double later = std::exchange(engine_ttft, sum) - sum;
    for (const RequestOutcome& outcome : result.outcomes) later += outcome.ttft_s;
    outside.push_back(std::max(0.0, later) /
                      static_cast<double>(std::max<std::size_t>(1, result.outcomes.size())));
    bar.update(std::min(static_cast<std::int64_t>(load.seconds),
                        static_cast<std::int64_t>(to_seconds(clock.now() - start))));
  }
  std::ranges::sort(outside);
  return outside[outside.size() / 2];
}

}  // namespace

Result<ServedSteps> served_steps(const EngineFlags& flags, const ServedLoad& load) {
  PAGODA_ASSIGN_OR_RETURN(const auto folder, TemporaryFolder::create());
  PAGODA_ASSIGN_OR_RETURN(const auto port, free_port());
  EngineFlags own = flags;
  own.server.host = "127.0.0.1";
  own.server.port = port;
  own.max_queue_time_s = 0;  // no limit: the load is ours, and on a slow machine it waits
  own.max_queue = std::max(own.max_queue, load.max_batch);
  own.served_model_names = {kModelName};
  own.record = folder.file("steps.log");
  own.poison_record = folder.file("poison");
  LoadOptions options;
  options.server = {.host = "127.0.0.1", .port = std::to_string(port), .path = ""};
  ServerProcess server(own, folder.file("server.out"));
  PAGODA_RETURN_IF_ERROR(wait_until_ready(server, options));
  const auto outside = ask(options, load);
  PAGODA_RETURN_IF_ERROR(server.stop());
  if (!outside) return outside.error();
  PAGODA_ASSIGN_OR_RETURN(auto steps, measured_steps(own.record));
  return ServedSteps{.steps = std::move(steps), .outside_s = *outside};
}

}  // namespace pagoda
