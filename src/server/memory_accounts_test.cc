#include "server/memory_accounts.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <numeric>

#include "server/running_server.h"

namespace pagoda {
namespace {

constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;

std::int64_t used(const MemoryBudget& ledger, std::string_view name) {
  for (const MemoryBudget::Account& account : ledger.accounts())
    if (account.name == name) return account.used;
  ADD_FAILURE() << name;
  return 0;
}

// Bytes of a Boost value with all below it.
std::int64_t bytes_of(const boost::json::value& value) {
  std::int64_t bytes = sizeof value;
  if (const auto* array = value.if_array()) {
    bytes += static_cast<std::int64_t>((array->capacity() - array->size()) * sizeof value);
    for (const auto& element : *array) bytes += bytes_of(element);
  }
  if (const auto* object = value.if_object())
    for (const auto& entry : *object) bytes += bytes_of(entry.value()) + 40 + std::ssize(entry.key());
  if (const auto* string = value.if_string()) bytes += static_cast<std::int64_t>(string->capacity());
  return bytes;
}

TEST(MemoryAccounts, ATextIsNeverTakenForLessThanItsValues) {
  std::string ids = "[1", lists = "[[]", words = "[\"a\"", plain = "\"";
  for (int i = 0; i < 10'000; ++i) {
    ids += ",1";
    lists += ",[]";
    words += ",\"abc\"";
    plain += "words, and a comma; ";
  }
  for (const std::string& body :
       {ids + "]", lists + "]", words + "]", plain + "\"", std::string(R"({"a":{"b":[{}]}})")}) {
    const auto value = parse_json(body);
    ASSERT_TRUE(value.has_value()) << body.substr(0, 40);
    EXPECT_GE(text_bytes(body), bytes_of(*value)) << body.substr(0, 40);
    EXPECT_LT(text_bytes(body), 400'000 + 80 * std::ssize(body)) << body.substr(0, 40);
  }
}

TEST(MemoryAccounts, AreCutDownToWhatThereIs) {
  MemoryBudget ledger(64 * kMebibyte);
  ServerConfig config;
  config.memory = &ledger;
  config.max_body_bytes = 50 * kMebibyte;
  set_log_level(LogLevel::off);
  const MemoryAccounts accounts(config);
  std::int64_t promised = 0;
  for (const MemoryBudget::Account& account : ledger.accounts()) {
    promised += account.promised;
    EXPECT_LE(account.limit, ledger.limit()) << account.name;
    EXPECT_GT(account.promised, 0) << account.name;
  }
  EXPECT_LE(promised, ledger.limit());
  EXPECT_LE(config.max_body_bytes, static_cast<std::size_t>(32 * kMebibyte));
  EXPECT_LE(config.max_stored_answers_bytes, static_cast<std::size_t>(4 * kMebibyte));
}

TEST(MemoryAccounts, OfAServerThatHasEnoughChangeNothing) {
  ServerConfig config;
  const ServerConfig before = config;
  const MemoryAccounts accounts(config);
  EXPECT_EQ(config.max_body_bytes, before.max_body_bytes);
  EXPECT_EQ(config.max_stored_answers_bytes, before.max_stored_answers_bytes);
  EXPECT_EQ(accounts.limit_of(accounts.answers()), static_cast<std::int64_t>(before.max_answer_memory));
}

TEST(MemoryAccounts, ATextThatFindsNoMemoryIsRefusedAndOneThatNeverWillToo) {
  MemoryBudget ledger(8 * kMebibyte);
  ServerConfig config;
  config.memory = &ledger;
  RunningServer running(config);
  TestClient client(running.port());
  EXPECT_EQ(client.post("/v1/completions", kPrompt).status, 200);
  EXPECT_EQ(used(ledger, "texts"), 0);
  std::string ids = R"({"max_tokens":1,"prompt":[97)";
  for (int i = 0; i < 200'000; ++i) ids += ",97";
  const TestResponse never = client.post("/v1/completions", ids + "]}");
  EXPECT_EQ(never.status, 400) << never.body;
  EXPECT_NE(never.body.find("bytes of memory"), std::string::npos) << never.body;
  {
    const auto others = ledger.add_account("others", 0, ledger.limit());
    std::vector<MemoryReservation> taken;  // all that is promised to nobody, and then some
    for (std::int64_t bytes = ledger.limit(); bytes > 1024; bytes /= 2)
      while (auto held = ledger.try_reserve(*others, bytes)) taken.push_back(*std::move(held));
    std::string large = R"({"max_tokens":1,"prompt":[97)";
    for (int i = 0; i < 15'000; ++i) large += ",97";
    const TestResponse full = client.post("/v1/completions", large + "]}");
    EXPECT_EQ(full.status, 429) << full.body;
    EXPECT_NE(full.body.find("text_memory_full"), std::string::npos) << full.body;
    EXPECT_EQ(client.post("/v1/completions", kPrompt).status, 200) << "a promise holds";
    EXPECT_EQ(client.get("/health").status, 200);
  }
}

TEST(MemoryAccounts, ConnectionsWithoutMemoryAreToldSoAndHealthIsAnswered) {
  MemoryBudget ledger(16 * kMebibyte);
  ServerConfig config;
  config.memory = &ledger;
  RunningServer running(config);
  const auto others = ledger.add_account("others", 0, ledger.limit());
  std::vector<MemoryReservation> taken;
  for (std::int64_t bytes = ledger.limit(); bytes > 1024; bytes /= 2)
    while (auto held = ledger.try_reserve(*others, bytes)) taken.push_back(*std::move(held));
  running.engine.pause_ms = 50;
  std::vector<std::unique_ptr<TestClient>> busy;  // as many as have been promised room: a sixteenth of it
  for (int i = 0; i < 44; ++i) {
    busy.push_back(std::make_unique<TestClient>(running.port()));
    busy.back()->send_post("/v1/completions",
                           R"({"prompt":"abc","add_special_tokens":false,"max_tokens":300,"stream":true})");
  }
  ASSERT_TRUE(eventually([&] { return running.engine.num_running() > 40; }));
  EXPECT_TRUE(eventually([&] {
    TestClient more(running.port());
    return more.get("/health").status == 200 && more.get("/v1/models").status == 503;
  }));
  taken.clear();
  EXPECT_TRUE(eventually([&] { return TestClient(running.port()).get("/v1/models").status == 200; }));
}

TEST(MemoryAccounts, AreToldToTheOperator) {
  RunningServer running;
  TestClient client(running.port());
  const auto told = parse_json(client.get("/debug/memory").body);
  ASSERT_TRUE(told.has_value());
  std::int64_t sum = 0;
  for (const auto& account : told->at("accounts").as_array()) sum += account.at("used").as_int64();
  EXPECT_EQ(told->at("used").as_int64(), sum);
  EXPECT_GT(sum, 0) << "this connection";
}

}  // namespace
}  // namespace pagoda
