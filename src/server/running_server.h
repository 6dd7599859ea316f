#pragma once
// RunningServer, for tests only: a Server with a FakeEngine, and the bodies that tests send to it.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "api/json.h"
#include "api/test_support.h"
#include "base/log.h"
#include "server/fake_engine.h"
#include "server/server.h"
#include "server/test_client.h"

namespace pagoda {

// Waits up to `limit` for a condition that another thread makes true.
inline bool eventually(const std::function<bool()>& condition,
                       std::chrono::milliseconds limit = std::chrono::milliseconds(10'000)) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (std::chrono::steady_clock::now() < deadline) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return condition();
}

// A server on a free port, run by a separate thread until the end of the test.
class RunningServer {
 public:
  // Serves `client`, if given, instead of the FakeEngine. `adapters`: adapters that requests can choose.
  explicit RunningServer(ServerConfig config = {}, EngineClient* client = nullptr,
                         AdapterCatalog* adapters = nullptr)
      : model_(4096) {
    model_.context.adapters = adapters;
    set_log_level(LogLevel::off);
    config.port = 0;
    config.handle_signals = false;
    EngineClient& served = client != nullptr ? *client : engine;
    auto created = Server::create(std::move(config), served, model_.context, metrics);
    EXPECT_TRUE(created.has_value()) << created.error().message();
    server = std::move(*created);
    thread_ = std::thread([this] { ended = server->run(); });
  }
  ~RunningServer() {
    server->stop();
    thread_.join();
    server.reset();
  }
  std::uint16_t port() const { return server->port(); }
  void join() {
    thread_.join();
    thread_ = std::thread([] {});
  }

  FakeEngine engine;
  MetricsRegistry metrics;
  std::unique_ptr<Server> server;
  Status ended;  // result of run(); valid after join()

 private:
  TestModel model_;
  std::thread thread_;
};

inline constexpr std::string_view kPrompt = R"({"prompt":"abc","add_special_tokens":false,"max_tokens":4})";
inline constexpr std::string_view kStream =
    R"({"prompt":"abc","add_special_tokens":false,"max_tokens":4,"stream":true})";
inline constexpr std::string_view kLongStream =
    R"({"prompt":"abc","add_special_tokens":false,"max_tokens":4000,"stream":true})";
inline constexpr std::string_view kLong = R"({"prompt":"abc","add_special_tokens":false,"max_tokens":4000})";

// Bytes that a client sends, and the expected status.
struct Exchange {
  std::string request;
  int status;
};

// The text of the first choice.
inline std::string text_of(const TestResponse& response) {
  const auto value = parse_json(response.body);
  EXPECT_TRUE(value.has_value()) << response.body;
  return std::string(value->at("choices").at(0).at("text").as_string().c_str());
}

}  // namespace pagoda
