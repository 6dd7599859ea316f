// load_bench [STREAMS] [TOKENS_PER_S] [SECONDS]: checks whether the load generator can be the bottleneck. A
// server in this process sends TOKENS_PER_S tokens per second over STREAMS streams. Prints the tokens
// received, their delay, and the CPU seconds of the generator's thread. Chunks are as large as those of a
// real server (about 270 bytes).
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "load/fake_server.h"
#include "load/http_load.h"
#include "load/request_body.h"
#include "load/serve_report.h"
#include "load/workload_spec.h"

namespace {

using namespace pagoda;

double thread_cpu_s() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
}

std::string token_event(int number) {
  return FakeServer::event(
      concat(R"({"id":"cmpl-0123456789abcdef01234567","object":"text_completion","created":1795273956,)",
             R"("model":"fake-model","choices":[{"index":0,"text":" token","logprobs":null,)",
             R"("finish_reason":null,"stop_reason":null}],"usage":{"prompt_tokens":16,"total_tokens":)",
             16 + number, R"(,"completion_tokens":)", number, "}}"));
}

}  // namespace

int main(int argc, char** argv) {
  const int streams = argc > 1 ? std::atoi(argv[1]) : 1000;
  const int rate = argc > 2 ? std::atoi(argv[2]) : 20'000;
  const int seconds = argc > 3 ? std::atoi(argv[3]) : 10;
  if (streams < 1 || rate < streams || seconds < 1) {
    std::fputs("usage: load_bench [STREAMS] [TOKENS_PER_S >= STREAMS] [SECONDS]\n", stderr);
    return 2;
  }
  const auto gap = std::chrono::microseconds(std::int64_t{1'000'000} * streams / rate);
  const int tokens = rate / streams * seconds;
  std::atomic<double> server_cpu_s{0};
  FakeServer server([&](FakeServer::Call& call) -> boost::asio::awaitable<bool> {
    co_await call.send(FakeServer::kStreamHead);
    // Streams are out of phase, and each has a fixed schedule: a late token does not delay the next.
    auto due = std::chrono::steady_clock::now() + gap * (call.number % streams) / streams;
    boost::asio::steady_timer timer(call.socket.get_executor());
    for (int i = 1; i <= tokens; ++i) {
      timer.expires_at(due);
      co_await timer.async_wait(FakeServer::kAwait);
      due += gap;
      if (!co_await call.send(token_event(i))) co_return false;
    }
    server_cpu_s = thread_cpu_s();
    co_return co_await call.send(FakeServer::event("[DONE]") + "0\r\n\r\n");
  });

  LoadOptions options;
  options.server = {"127.0.0.1", std::to_string(server.port()), ""};
  options.read_timeout = std::chrono::seconds(30);
  options.body = [](const WorkloadRequest& request, std::uint64_t index) {
    return write_body(request, index, BodyOptions());
  };
  auto workload = open_workload(concat("fixed:input=16,output=", tokens, ",requests=", streams));
  if (!workload) return 1;
  const double cpu_before = thread_cpu_s();
  const auto result = run_load(**workload, options);
  const double cpu = thread_cpu_s() - cpu_before;
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().message().c_str());
    return 1;
  }
  const ServeSummary s = summarize(*result, {});
  std::printf("streams %lld (failed %lld), tokens %lld of %lld, %.1f s\n",
              static_cast<long long>(s.completed), static_cast<long long>(s.failed),
              static_cast<long long>(s.total_output), static_cast<long long>(tokens) * streams, s.duration_s);
  std::printf(
      "tokens/s %.0f (sent: %d), inter-token gap sent %.1f ms, seen: mean %.2f, p50 %.2f, p99 %.2f ms\n",
      s.output_throughput, rate, double(gap.count()) / 1e3, s.itl.statistics.mean, s.itl.statistics.p50,
      s.itl.statistics.p99);
  std::printf(
      "CPU of the generator's thread: %.2f s (%.0f%% of one core, %.1f us a token); of the server's: %.2f "
      "s\n",
      cpu, cpu / s.duration_s * 100, cpu * 1e6 / double(s.total_output), server_cpu_s.load());
  for (const auto& [reason, count] : s.errors)
    std::printf("failed: %s (%lld)\n", reason.c_str(), static_cast<long long>(count));
  return s.failed == 0 ? 0 : 1;
}
