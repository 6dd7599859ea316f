// Adapters that requests choose, over HTTP: by every protocol, and vLLM's routes that load and unload them.
#include <fstream>

#include "api/fake_adapters.h"
#include "base/strings.h"
#include "server/running_server.h"

namespace pagoda {
namespace {

class AdapterEndpoints : public ::testing::Test {
 protected:
  AdapterEndpoints() {
    EXPECT_TRUE(adapters.load("sql", "/adapters/sql", false));
    EXPECT_TRUE(adapters.load("org/math", "/adapters/math", false));
  }
  static ServerConfig updating() {
    ServerConfig config;
    config.runtime_adapters = true;
    return config;
  }
  // The name that an answer's "model" has.
  static std::string model_of(const TestResponse& response) {
    constexpr std::string_view kKey = R"("model":")";
    const std::size_t begin = response.body.find(kKey);
    if (begin == std::string::npos) return concat("none: ", response.body);
    const std::size_t at = begin + kKey.size();
    return response.body.substr(at, response.body.find('"', at) - at);
  }

  FakeAdapters adapters;
};

TEST_F(AdapterEndpoints, AreChosenByTheModelsNameInEveryProtocol) {
  RunningServer running({}, nullptr, &adapters);
  TestClient client(running.port());
  const std::pair<const char*, const char*> calls[] = {
      {"/v1/completions", R"("prompt":"abc","max_tokens":2)"},
      {"/v1/completions", R"("prompt":["abc","def"],"max_tokens":2,"n":2)"},
      {"/v1/completions", R"("prompt":"abc","max_tokens":2,"stream":true)"},
      {"/v1/chat/completions", R"("messages":[{"role":"user","content":"a"}],"max_tokens":2)"},
      {"/v1/chat/completions", R"("messages":[{"role":"user","content":"a"}],"max_tokens":2,"stream":true)"},
      {"/v1/responses", R"("input":"a","max_output_tokens":2)"},
      {"/v1/messages", R"("messages":[{"role":"user","content":"a"}],"max_tokens":2)"},
      {"/v1/messages", R"("messages":[{"role":"user","content":"a"}],"max_tokens":2,"stream":true)"},
      {"/api/chat", R"("messages":[{"role":"user","content":"a"}],"options":{"num_predict":2})"},
      {"/api/generate", R"("prompt":"a","stream":false,"options":{"num_predict":2})"},
      {"/completion", R"("prompt":"a","n_predict":2)"},
  };
  for (const auto& [path, fields] : calls) {
    const auto ask = [&](std::string_view model) {
      return client.post(path, concat(R"({"model":")", model, "\",", fields, "}"));
    };
    for (const auto& [model, id] : std::map<std::string, int>{{"sql", 1}, {"org/math", 2}}) {
      const TestResponse answer = ask(model);
      EXPECT_EQ(answer.status, 200) << path << answer.body;
      EXPECT_EQ(model_of(answer), model) << path;
      EXPECT_EQ(running.engine.last_adapter, id) << path;
    }
    const TestResponse plain = ask("alias");
    EXPECT_EQ(model_of(plain), "tiny") << path;
    EXPECT_EQ(running.engine.last_adapter, 0) << path;
    if (std::string_view(path) != "/completion") EXPECT_EQ(ask("other").status, 404) << path;
  }
  EXPECT_EQ(model_of(client.post("/api/chat", R"({"model":"sql:latest","messages":[{"role":"user",
      "content":"a"}],"options":{"num_predict":2}})")),
            "sql");
}

TEST_F(AdapterEndpoints, AreListedWithTheirPathsBehindTheModel) {
  RunningServer running({}, nullptr, &adapters);
  TestClient client(running.port());
  const auto models = parse_json(client.get("/v1/models").body);
  ASSERT_TRUE(models);
  const auto& data = models->at("data").as_array();
  ASSERT_EQ(data.size(), 4u);
  EXPECT_EQ(data[0].at("id"), "tiny");
  EXPECT_TRUE(data[0].at("parent").is_null());
  EXPECT_EQ(data[2].at("id"), "sql");
  EXPECT_EQ(data[2].at("root"), "/adapters/sql");
  EXPECT_EQ(data[2].at("parent"), "tiny");
  const auto one = parse_json(client.get("/v1/models/org%2Fmath").body);
  ASSERT_TRUE(one);
  EXPECT_EQ(one->at("root"), "/adapters/math");
  EXPECT_EQ(client.get("/v1/models/none").status, 404);
  const auto anthropic = parse_json(client.get("/v1/models", "anthropic-version: 2023-06-01\r\n").body);
  ASSERT_TRUE(anthropic);
  EXPECT_EQ(anthropic->at("last_id"), "org/math");
  for (const char* path : {"/api/tags", "/api/ps", "/api/v1/models", "/api/v0/models"}) {
    const std::string body = client.get(path).body;
    EXPECT_NE(body.find("\"tiny\""), std::string::npos) << path;
    EXPECT_NE(body.find("\"sql\""), std::string::npos) << path;
  }
  EXPECT_EQ(client.get("/api/ps").body.find("\"alias\""), std::string::npos);
  EXPECT_EQ(
      client.get("/lora-adapters").body,
      R"([{"id":0,"name":"sql","path":"/adapters/sql","scale":0,"task_name":"","prompt_prefix":""},)"
      R"({"id":1,"name":"org/math","path":"/adapters/math","scale":0,"task_name":"","prompt_prefix":""}])");
}

TEST_F(AdapterEndpoints, AreChosenByLlamaCppsField) {
  RunningServer running({}, nullptr, &adapters);
  TestClient client(running.port());
  const auto ask = [&](const char* path, std::string_view lora, std::string_view more = "") {
    return client.post(path, concat(R"({"prompt":"abc","max_tokens":2,"lora":)", lora, more, "}"));
  };
  for (const char* path : {"/v1/completions", "/completion"}) {
    EXPECT_EQ(model_of(ask(path, R"([{"id":1,"scale":1.0}])")), "org/math") << path;
    EXPECT_EQ(running.engine.last_adapter, 2) << path;
    EXPECT_EQ(model_of(ask(path, R"([{"id":0,"scale":1},{"id":1,"scale":0}])")), "sql") << path;
    EXPECT_EQ(model_of(ask(path, "[]")), "tiny") << path;
    EXPECT_EQ(model_of(ask(path, R"([{"id":0,"scale":1}])", R"(,"model":"sql")")), "sql") << path;
    for (const auto& [lora, why] : std::map<std::string, std::string>{
             {R"([{"id":0,"scale":0.5}])", "'lora.0.scale' must be 0 or 1"},
             {R"([{"id":0,"scale":1},{"id":1,"scale":1}])", "several adapters"},
             {R"([{"id":7,"scale":1}])", "'lora.0.id' is not that of a loaded adapter"},
             {R"([{"scale":1}])", "'lora.0.id' is required"},
             {R"([3])", "'lora.0' must be an object"}}) {
      const TestResponse refused = ask(path, lora);
      EXPECT_EQ(refused.status, 400) << path << lora;
      EXPECT_NE(refused.body.find(why), std::string::npos) << refused.body;
    }
    EXPECT_EQ(ask(path, R"([{"id":0,"scale":1}])", R"(,"model":"org/math")").status, 400) << path;
  }
  EXPECT_EQ(client.post("/lora-adapters", R"([{"id":0,"scale":0}])").body, R"({"success":true})");
  const TestResponse refused = client.post("/lora-adapters", R"([{"id":0,"scale":1}])");
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("each request"), std::string::npos) << refused.body;
  EXPECT_EQ(client.post("/lora-adapters", "nonsense").status, 400);
}

TEST_F(AdapterEndpoints, AreLoadedAndUnloadedAsByVllm) {
  RunningServer running(updating(), nullptr, &adapters);
  TestClient client(running.port());
  const auto load = [&](std::string_view body) { return client.post("/v1/load_lora_adapter", body); };
  const TestResponse loaded = load(R"({"lora_name":"new","lora_path":"/adapters/new"})");
  EXPECT_EQ(loaded.status, 200);
  EXPECT_EQ(loaded.body, "Success: LoRA adapter 'new' added successfully.");
  EXPECT_EQ(model_of(client.post("/v1/completions", R"({"model":"new","prompt":"a","max_tokens":2})")),
            "new");
  EXPECT_EQ(running.engine.last_adapter, 3);
  const TestResponse twice = load(R"({"lora_name":"new","lora_path":"/adapters/new"})");
  EXPECT_EQ(twice.status, 400);
  EXPECT_NE(
      twice.body.find("The lora adapter 'new' has already been loaded. If you want to load the adapter in "
                      "place, set 'load_inplace' to True."),
      std::string::npos)
      << twice.body;
  EXPECT_EQ(load(R"({"lora_name":"new","lora_path":"/adapters/2","load_inplace":true})").status, 200);
  EXPECT_EQ(adapters.find("new")->id, AdapterId{4});
  const TestResponse missing = load(R"({"lora_name":"m","lora_path":"missing"})");
  EXPECT_EQ(missing.status, 404);
  EXPECT_NE(missing.body.find("Loading lora m failed: No adapter found for missing"), std::string::npos);
  const TestResponse broken = load(R"({"lora_name":"b","lora_path":"broken"})");
  EXPECT_EQ(broken.status, 400) << "the file is none of the server's faults";
  EXPECT_NE(broken.body.find("a tensor is cut off"), std::string::npos);
  for (const char* body :
       {R"({"lora_name":"x"})", R"({"lora_path":"x"})", R"({"lora_name":"","lora_path":""})"}) {
    const TestResponse refused = load(body);
    EXPECT_EQ(refused.status, 400);
    EXPECT_NE(refused.body.find("Both 'lora_name' and 'lora_path' must be provided."), std::string::npos);
  }
  const auto unload = [&](std::string_view body) { return client.post("/v1/unload_lora_adapter", body); };
  const TestResponse unloaded = unload(R"({"lora_name":"new","lora_int_id":3})");
  EXPECT_EQ(unloaded.status, 200);
  EXPECT_EQ(unloaded.body, "Success: LoRA adapter 'new' removed successfully.");
  EXPECT_EQ(client.post("/v1/completions", R"({"model":"new","prompt":"a","max_tokens":2})").status, 404);
  const TestResponse gone = unload(R"({"lora_name":"new"})");
  EXPECT_EQ(gone.status, 404);
  EXPECT_NE(gone.body.find("The lora adapter 'new' cannot be found."), std::string::npos);
  EXPECT_EQ(unload("{}").status, 400);
}

TEST_F(AdapterEndpoints, NobodyWaitsForALoadButWhoAsked) {
  RunningServer running(updating(), nullptr, &adapters);
  TestClient loader(running.port()), client(running.port());
  loader.send_post("/v1/load_lora_adapter", R"({"lora_name":"slow","lora_path":"p"})");
  EXPECT_EQ(model_of(client.post("/v1/completions", R"({"model":"sql","prompt":"a","max_tokens":2})")),
            "sql");
  adapters.release();
  EXPECT_EQ(loader.read_response().status, 200);
}

TEST_F(AdapterEndpoints, ArePermittedByAFlagToAdministratorsAlone) {
  constexpr const char* kLoad = R"({"lora_name":"x","lora_path":"p"})";
  {
    RunningServer running({}, nullptr, &adapters);
    TestClient client(running.port());
    for (const char* path : {"/v1/load_lora_adapter", "/v1/unload_lora_adapter"}) {
      const TestResponse refused = client.post(path, kLoad);
      EXPECT_EQ(refused.status, 403);
      EXPECT_NE(refused.body.find("--allow-runtime-lora-updating"), std::string::npos) << refused.body;
      EXPECT_NE(refused.body.find("whatever path"), std::string::npos) << refused.body;
    }
  }
  {
    RunningServer running(updating());
    TestClient client(running.port());
    const TestResponse refused = client.post("/v1/load_lora_adapter", kLoad);
    EXPECT_EQ(refused.status, 400);
    EXPECT_NE(refused.body.find("--enable-lora"), std::string::npos) << refused.body;
    EXPECT_EQ(client.get("/lora-adapters").body, "[]");
    EXPECT_EQ(client.post("/v1/completions", R"({"prompt":"a","lora":[{"id":0,"scale":1}]})").status, 400);
  }
  ServerConfig config = updating();
  config.api_key_file = ::testing::TempDir() + "pagoda_keys_adapters.yaml";
  std::ofstream(config.api_key_file) << "keys:\n- {name: alice, key: alices}\n"
                                        "- {name: ops, key: opss, role: admin}\n";
  RunningServer running(config, nullptr, &adapters);
  for (const char* path : {"/v1/load_lora_adapter", "/lora-adapters"}) {
    TestClient refused(running.port());
    EXPECT_EQ(refused.post(path, kLoad, "Authorization: Bearer alices\r\n").status, 403) << path;
  }
  TestClient client(running.port());
  EXPECT_EQ(client.post("/v1/load_lora_adapter", kLoad, "Authorization: Bearer opss\r\n").status, 200);
  EXPECT_EQ(model_of(client.post("/v1/completions", R"({"model":"x","prompt":"a","max_tokens":2})",
                                 "Authorization: Bearer alices\r\n")),
            "x")
      << "whoever may ask the model may ask with an adapter";
}

}  // namespace
}  // namespace pagoda
