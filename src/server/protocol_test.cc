// A second protocol beside OpenAI's: a table of rows and its own forms, and nothing else of the server
// changes.
#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "api/answer_state.h"
#include "api/chat_prompt_tokens.h"
#include "api/openai/openai_protocol.h"
#include "server/running_server.h"

namespace pagoda {
namespace {

// One line of text for each piece of the answer, or one text.
class LineWriter final : public AnswerWriter {
 public:
  LineWriter(AnswerOptions options, bool stream, const Tokenizer& tokenizer)
      : options_(std::move(options)), stream_(stream), state_(options_, tokenizer) {}
  void add(std::size_t prompt_index, RequestOutput output) override {
    state_.add(prompt_index, std::move(output));
  }
  void fail(Status error) override { state_.fail(std::move(error)); }
  std::vector<SequenceStop> take_stops() override { return state_.take_stops(); }
  bool streaming() const override { return stream_; }
  bool needs_every_output() const override { return stream_; }
  bool finished() const override { return state_.finished(); }
  const Status& error() const override { return state_.error(); }
  Usage usage() const override { return state_.usage(); }
  bool take(std::string& out, std::size_t) override {
    if (!stream_ && !finished()) return false;
    std::string text = std::exchange(state_.choices.front().fresh.text, {});
    if (!text.empty()) out.append(text).append("\n");
    return false;
  }

 private:
  const AnswerOptions options_;
  const bool stream_;
  AnswerState state_;
};

// The body is what the user says.
Result<ApiGeneration> say(const ApiCall& call, const ApiContext& context) {
  if (call.body.empty()) return invalid_argument("Say something.");
  Conversation conversation;
  conversation.messages.push_back({.role = "user", .content = Content::of(call.body)});
  Result<std::vector<TokenId>> ids = chat_prompt_tokens(std::move(conversation), context);
  if (!ids) return ids.error();
  Request request;
  request.prompt_token_ids = *ids;
  request.sampling.max_tokens = 3;
  AnswerOptions options;
  options.prompts.push_back({.text = {}, .token_ids = *std::move(ids)});
  ApiGeneration out;
  out.id = call.id;
  out.requests.push_back(std::move(request));
  out.answer =
      std::make_unique<LineWriter>(std::move(options), call.header("x-stream") == "yes", *context.tokenizer);
  return out;
}

std::atomic<int> num_slow{0};
std::promise<void>* slow_gate = nullptr;
Result<ApiAnswer> slow(const ApiCall& call, const ApiContext&) {
  if (++num_slow == 1) slow_gate->get_future().wait();
  return ApiAnswer(std::string(call.parameter));
}

Result<ApiAnswer> nap(const ApiCall&, const ApiContext&) {
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return ApiAnswer("rested");
}

constexpr ApiRoute kRows[] = {
    {{.method = "POST",
      .path = "/say",
      .cost = Cost::generation,
      .form = AnswerForm::ndjson,
      .body = BodyForm::any,
      .max_body_bytes = 100},
     say},
    {{.method = "POST", .path = "/slow/{name}", .cost = Cost::text, .body = BodyForm::json}, slow},
    {{.method = "POST", .path = "/nap", .cost = Cost::text, .body = BodyForm::any}, nap},
};
std::string line_error(const ApiError& error) { return concat("E", error.status, " ", error.message); }
constexpr Protocol kLines = {.name = "lines", .routes = kRows, .error_body = line_error};

ServerConfig with_lines() {
  ServerConfig config;
  config.protocols = {&openai_protocol(), &kLines};
  return config;
}

TEST(SecondProtocol, IsATableOfRowsAndItsOwnForms) {
  RunningServer running(with_lines());
  TestClient client(running.port());
  const TestResponse whole = client.post("/say", "hello");
  EXPECT_EQ(whole.status, 200) << whole.body;
  EXPECT_EQ(whole.body, "use\n") << "the fake engine repeats the prompt: <x>user…";
  const TestResponse stream = client.post("/say", "hello", "X-Stream: yes\r\n");
  EXPECT_EQ(stream.headers.at("content-type"), "application/x-ndjson");
  EXPECT_EQ(stream.body, "u\ns\ne\n");
  EXPECT_EQ(client.post("/v1/completions", kPrompt).status, 200);
}

TEST(SecondProtocol, AnswersErrorsInItsForm) {
  RunningServer running(with_lines());
  TestClient client(running.port());
  EXPECT_EQ(client.post("/say", "").body, "E400 Say something.");
  EXPECT_EQ(client.get("/say").body, "E405 GET is not allowed here; allowed: POST, OPTIONS.");
  running.engine.capacity = 0;
  const TestResponse full = client.post("/say", "x");
  EXPECT_EQ(full.body, "E429 The queue of waiting requests is full.");
  EXPECT_TRUE(full.headers.contains("retry-after"));
  const TestResponse large = client.post("/say", std::string(101, 'x'));
  EXPECT_EQ(large.body, "E413 The request body is larger than 100 bytes.");
}

// Jobs of clients that left are dropped, and a large job does not delay a small one.
TEST(JobsOfConnections, ThoseOfWhoLeftAreDroppedAndSmallOnesPassLargeOnes) {
  num_slow = 0;
  std::promise<void> gate;
  slow_gate = &gate;
  ServerConfig config = with_lines();
  config.worker_threads = 1;
  RunningServer running(config);
  const std::string large(100'000, 'x');
  TestClient holder(running.port()), other(running.port());
  holder.send_post("/slow/a", large);
  ASSERT_TRUE(eventually([] { return num_slow == 1; }));
  for (int i = 0; i < 5; ++i) {
    TestClient leaves(running.port());
    leaves.send_post("/slow/b", large);
    while (other.get("/health").status == 0) {
    }
  }
  EXPECT_EQ(other.post("/tokenize", R"({"prompt":"hi"})").status, 200) << "beside a large job";
  TestClient stays(running.port());
  stays.send_post("/slow/c", large);
  const auto num_connections = [&] { return running.metrics.gauge("http_connections", "").value(); };
  ASSERT_TRUE(eventually([&] { return num_connections() == 3; })) << "the hang-ups are seen";
  gate.set_value();
  EXPECT_EQ(holder.read_response().body, "a");
  EXPECT_EQ(stays.read_response().body, "c");
  EXPECT_EQ(num_slow, 2) << "the five who left";
}

TEST(JobsOfConnections, OneThatIsKeptHasItsTurnBesideThoseThatAreOpenedForEachCall) {
  ServerConfig config = with_lines();
  config.worker_threads = 1;
  RunningServer running(config);
  std::atomic<bool> over = false;
  std::atomic<int> num_others = 0;
  std::vector<std::thread> others;
  for (int i = 0; i < 6; ++i)
    others.emplace_back([&] {
      while (!over) {
        TestClient fresh(running.port());
        if (fresh.post("/nap", "x").status == 200) ++num_others;
      }
    });
  TestClient kept(running.port());
  EXPECT_EQ(kept.post("/nap", "x").status, 200);
  ASSERT_TRUE(eventually([&] { return num_others > 20; }));
  const int before = num_others;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(kept.post("/nap", "x").status, 200);
  EXPECT_LT(num_others - before, 100) << "of six others, in five turns";
  over = true;
  for (std::thread& other : others) other.join();
}

// Snapshots of a busy engine hold no thread, and many who ask cost it one.
TEST(JobsOfConnections, SnapshotsWaitOnNoThread) {
  ServerConfig config;
  config.worker_threads = 1;
  RunningServer running(config);
  std::vector<std::unique_ptr<TestClient>> askers;
  for (int i = 0; i < 8; ++i) {
    askers.push_back(std::make_unique<TestClient>(running.port()));
    askers.back()->send("GET /debug/kv HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }
  ASSERT_TRUE(eventually([&] { return running.engine.num_snapshots() == 1; }));
  TestClient other(running.port());
  EXPECT_EQ(other.post("/tokenize", R"({"prompt":"hi"})").status, 200);
  EXPECT_EQ(running.engine.num_snapshots(), 1u);
  running.engine.answer_snapshots();
  ASSERT_TRUE(eventually([&] { return running.engine.num_snapshots() == 1; })) << "one for all the others";
  running.engine.answer_snapshots();
  for (const auto& asker : askers) EXPECT_EQ(asker->read_response().status, 200);
}

}  // namespace
}  // namespace pagoda
