#include "load/http_load.h"

#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <memory>
#include <unordered_set>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "load/http_exchange.h"

namespace pagoda {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;
using Tcp = asio::ip::tcp;

constexpr auto kAwaited = asio::as_tuple(asio::use_awaitable);
constexpr milliseconds kSweepEvery{50};
constexpr milliseconds kAfterDone{1000};  // grace period for the end of an answer after [DONE]

double process_cpu_s() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) { return double(t.tv_sec) + double(t.tv_usec) * 1e-6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Raises the limit on open files as far as the system allows: a thousand streams exceed the usual soft limit.
void raise_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, std::max<rlim_t>(limit.rlim_cur, 65'536));
  setrlimit(RLIMIT_NOFILE, &limit);
}

TimeNs nanoseconds(milliseconds duration) { return std::chrono::nanoseconds(duration).count(); }

std::string request_head(const LoadOptions& options, const std::string& path, bool post,
                         std::size_t body_bytes, const std::string& request_id = "") {
  const std::string& host = options.server.host;
  const bool ipv6 = host.find(':') != std::string::npos;
  std::string head =
      concat(post ? "POST " : "GET ", options.server.path, path,
             " HTTP/1.1\r\nHost: ", ipv6 ? concat("[", host, "]") : host, ":", options.server.port, "\r\n");
  if (post)
    head +=
        concat("Content-Type: application/json\r\nAccept: text/event-stream\r\nContent-Length: ", body_bytes,
               "\r\n");
  if (!request_id.empty()) head += concat("X-Request-Id: ", request_id, "\r\n");
  for (const auto& [name, value] : options.headers) head += concat(name, ": ", value, "\r\n");
  return head + "\r\n";
}

class LoadRun {
 public:
  LoadRun(asio::io_context& context, Workload& workload, const LoadOptions& options,
          Tcp::resolver::results_type addresses)
      : context_(context),
        workload_(workload),
        options_(options),
        addresses_(std::move(addresses)),
        changed_(context),
        sweep_timer_(context) {}

  // Sends all requests and waits for their ends.
  asio::awaitable<void> run() {
    start_ = SteadyClock().now();
    auto sweeping = sweep();
    asio::co_spawn(context_, std::move(sweeping), asio::detached);
    for (;;) {
      auto request = workload_.next();
      if (!request) {
        status_ = request.error();
        break;
      }
      if (!*request) break;
      co_await wait_for_turn((*request)->arrival_s);
      const std::size_t index = outcomes_.size();
      outcomes_.emplace_back();
      max_running_ = std::max(max_running_, ++running_);
      auto one = run_one(index, std::move(**request));
      asio::co_spawn(context_, std::move(one), asio::detached);
    }
    while (running_ > 0) co_await change();
    duration_s_ = to_seconds(SteadyClock().now() - start_);
    ended_ = true;
    sweep_timer_.cancel();
    idle_.clear();
  }

  Result<LoadResult> result() {
    if (!status_.ok()) return status_;
    LoadResult result;
    result.outcomes = std::move(outcomes_);
    result.duration_s = duration_s_;
    result.max_running = max_running_;
    return result;
  }

 private:
  struct Running {
    std::unique_ptr<HttpExchange> exchange;
    TimeNs start = 0;
    const AnswerReader* reader = nullptr;
  };

  asio::awaitable<void> wait_for_turn(double arrival_s) {
    const auto due = std::chrono::steady_clock::time_point(
        std::chrono::nanoseconds(start_ + static_cast<TimeNs>(std::min(arrival_s, 1e9) * 1e9)));
    if (due > std::chrono::steady_clock::now()) {
      asio::steady_timer timer(context_, due);
      co_await timer.async_wait(kAwaited);
    }
    while (options_.max_concurrency && running_ >= *options_.max_concurrency) co_await change();
  }

  // Waits until a request has ended, for a second at most.
  asio::awaitable<void> change() {
    changed_.expires_after(std::chrono::seconds(1));
    co_await changed_.async_wait(kAwaited);
  }

  asio::awaitable<void> run_one(std::size_t index, WorkloadRequest request) {
    const std::string body = options_.body(request, index);
    const std::string id =
        options_.request_id_prefix.empty() ? "" : concat(options_.request_id_prefix, index);
    const std::string message = request_head(options_, options_.endpoint, true, body.size(), id) + body;
    Running running;
    running.start = SteadyClock().now();
    running_set_.insert(&running);
    bool fresh = true;
    if (!idle_.empty()) {
      running.exchange = std::move(idle_.back());
      idle_.pop_back();
      fresh = false;
    }
    for (;;) {
      AnswerReader reader(running.start, options_.texts, options_.wants);
      std::string failure;
      if (fresh) {
        running.exchange = std::make_unique<HttpExchange>(context_.get_executor());
        failure = co_await running.exchange->connect(addresses_);
      }
      running.reader = &reader;
      if (failure.empty()) failure = co_await running.exchange->run(message, reader);
      running.reader = nullptr;
      // The server may close an idle connection at any time. In that case retry the request on a new
      // connection.
      if (!failure.empty() && !fresh && !running.exchange->got_bytes() && !running.exchange->timed_out()) {
        fresh = true;
        continue;
      }
      outcomes_[index] = reader.finish(request.prompt_tokens, failure);
      outcomes_[index].start_s = to_seconds(running.start - start_);
      break;
    }
    running_set_.erase(&running);
    if (running.exchange->reusable()) idle_.push_back(std::move(running.exchange));
    --running_;
    ++num_ended_;
    changed_.cancel();
  }

  // Ends exchanges that have waited too long, and reports progress.
  asio::awaitable<void> sweep() {
    while (!ended_) {
      sweep_timer_.expires_after(kSweepEvery);
      co_await sweep_timer_.async_wait(kAwaited);
      const TimeNs now = SteadyClock().now();
      for (Running* const running : running_set_) check_time(*running, now);
      if (options_.progress) options_.progress(num_ended_, running_);
    }
  }

  void check_time(Running& running, TimeNs now) const {
    if (running.exchange == nullptr) return;
    HttpExchange& exchange = *running.exchange;
    const bool done = running.reader != nullptr && running.reader->done();
    const milliseconds limit = exchange.connecting() ? options_.connect_timeout
                               : done                ? std::min(kAfterDone, options_.read_timeout)
                                                     : options_.read_timeout;
    if (now - running.start > nanoseconds(options_.total_timeout))
      exchange.time_out(concat("timed out: no end after ",
                               static_cast<double>(options_.total_timeout.count()) / 1000, " s"));
    else if (now - exchange.waiting_since() > nanoseconds(limit))
      exchange.time_out(
          concat(exchange.connecting() ? "timed out: no connection after " : "timed out: not a byte for ",
                 static_cast<double>(limit.count()) / 1000, " s"));
  }

  asio::io_context& context_;
  Workload& workload_;
  const LoadOptions& options_;
  Tcp::resolver::results_type addresses_;
  asio::steady_timer changed_, sweep_timer_;
  std::vector<std::unique_ptr<HttpExchange>> idle_;
  std::unordered_set<Running*> running_set_;
  std::vector<RequestOutcome> outcomes_;
  std::int64_t running_ = 0, num_ended_ = 0, max_running_ = 0;
  TimeNs start_ = 0;
  double duration_s_ = 0;
  bool ended_ = false;
  Status status_;
};

Result<Tcp::resolver::results_type> resolve(asio::io_context& context, const HttpServerAddress& server) {
  Tcp::resolver resolver(context);
  boost::system::error_code error;
  auto addresses = resolver.resolve(server.host, server.port, error);
  if (error) return unavailable(concat("cannot resolve ", server.host, ": ", error.message()));
  return addresses;
}

}  // namespace

Result<HttpServerAddress> parse_base_url(std::string_view url) {
  const std::string whole(url);
  const auto fail = [&](std::string_view why) { return invalid_argument(concat("'", whole, "' ", why)); };
  if (url.starts_with("https://"))
    return unimplemented(concat("'", whole, "' is https, which is not supported"));
  if (url.starts_with("http://")) url.remove_prefix(7);
  if (url.find("://") != std::string_view::npos) return fail("does not begin with http://");
  for (const char c : url)
    if (c <= ' ' || c == 0x7f || c == '?' || c == '#' || c == '@') return fail("is not a valid URL");
  HttpServerAddress address;
  const std::size_t slash = std::min(url.find('/'), url.size());
  address.path = url.substr(slash);
  while (address.path.ends_with('/')) address.path.pop_back();
  std::string_view authority = url.substr(0, slash);
  if (authority.starts_with('[')) {  // an IPv6 address
    const std::size_t close = authority.find(']');
    if (close == std::string_view::npos) return fail("has a '[' that is not closed");
    address.host = authority.substr(1, close - 1);
    authority.remove_prefix(close + 1);
    if (!authority.empty() && authority.front() != ':')
      return fail("has something else than ':PORT' behind ']'");
  } else {
    const std::size_t colon = std::min(authority.find(':'), authority.size());
    address.host = authority.substr(0, colon);
    authority.remove_prefix(colon);
  }
  address.port = authority.empty() ? "80" : authority.substr(1);
  const bool number = !address.port.empty() && address.port.size() <= 5 &&
                      address.port.find_first_not_of("0123456789") == std::string::npos;
  if (address.host.empty()) return fail("has no host");
  if (!number || std::stoi(address.port) > 65'535) return fail("has a port that is not a number up to 65535");
  return address;
}

Result<LoadResult> run_load(Workload& workload, const LoadOptions& options) {
  raise_file_limit();
  const double cpu_before = process_cpu_s();
  try {
    asio::io_context context(1);
    PAGODA_ASSIGN_OR_RETURN(auto addresses, resolve(context, options.server));
    LoadRun run(context, workload, options, std::move(addresses));
    std::exception_ptr failure;
    asio::co_spawn(context, run.run(), [&](std::exception_ptr thrown) {
      failure = thrown;
      if (thrown) context.stop();
    });
    context.run();
    if (failure) std::rethrow_exception(failure);
    auto result = run.result();
    if (result) result->cpu_s = process_cpu_s() - cpu_before;
    return result;
  } catch (const std::exception& error) {  // from Asio or memory allocation; no exception leaves the folder
    return internal_error(concat("the load generator stopped: ", error.what()));
  }
}

Result<HttpAnswer> fetch(const LoadOptions& options, const std::string& path,
                         const std::optional<std::string>& body) {
  try {
    asio::io_context context(1);
    PAGODA_ASSIGN_OR_RETURN(auto addresses, resolve(context, options.server));
    std::string message = request_head(options, path, body.has_value(), body ? body->size() : 0);
    if (body) message += *body;
    AnswerReader reader(SteadyClock().now(), AnswerReader::Texts::drop);
    HttpExchange exchange(context.get_executor());
    std::string failure;
    bool ended = false;
    const auto talk = [&]() -> asio::awaitable<void> {
      failure = co_await exchange.connect(addresses);
      if (failure.empty()) failure = co_await exchange.run(message, reader);
      ended = true;
    };
    asio::co_spawn(context, talk(), asio::detached);
    const auto deadline = std::chrono::steady_clock::now() + options.read_timeout;
    while (!ended && std::chrono::steady_clock::now() < deadline) {
      if (exchange.connecting() &&
          SteadyClock().now() - exchange.waiting_since() > nanoseconds(options.connect_timeout))
        break;
      context.run_for(milliseconds(20));
      if (context.stopped()) context.restart();
    }
    if (!ended) {
      exchange.time_out("timed out");
      context.run();
    }
    if (!failure.empty())
      return unavailable(
          concat("http://", options.server.host, ":", options.server.port, path, ": ", failure));
    return HttpAnswer{reader.status(), reader.take_body()};
  } catch (const std::exception& error) {
    return internal_error(concat("the load generator stopped: ", error.what()));
  }
}

}  // namespace pagoda
