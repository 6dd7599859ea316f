#include <fstream>

#include "base/strings.h"
#include "server/running_server.h"

namespace pagoda {
namespace {

TEST(ControlEndpoints, SleepAndWakeUpAsVllmIsAsked) {
  RunningServer running;
  TestClient client(running.port());
  EXPECT_EQ(client.get("/is_sleeping").body, R"({"is_sleeping":false})");
  TestResponse slept = client.post("/sleep", "");
  EXPECT_EQ(slept.status, 200);
  EXPECT_EQ(slept.body, "");
  EXPECT_EQ(running.engine.slept.level, 1);
  EXPECT_EQ(running.engine.slept.running, SleepOrder::Running::abort);
  EXPECT_EQ(client.get("/is_sleeping").body, R"({"is_sleeping":true})");
  EXPECT_EQ(client.post("/sleep?level=2&mode=wait", "").status, 200);
  EXPECT_EQ(running.engine.slept.level, 2);
  EXPECT_EQ(running.engine.slept.running, SleepOrder::Running::wait);
  EXPECT_EQ(client.post("/sleep?mode=k%65ep", "").status, 200);
  EXPECT_EQ(running.engine.slept.running, SleepOrder::Running::keep);
  EXPECT_EQ(client.post("/wake_up?tags=weights&tags=scheduling", "").status, 200);
  EXPECT_TRUE(running.engine.woken.weights && running.engine.woken.scheduling);
  EXPECT_FALSE(running.engine.woken.kv_cache);
  EXPECT_EQ(client.post("/wake_up", "").status, 200);
  EXPECT_TRUE(running.engine.woken.kv_cache);
  EXPECT_EQ(client.post("/reset_prefix_cache?reset_running_requests=true", "").status, 200);
  EXPECT_EQ(running.engine.num_resets, 1);
}

TEST(ControlEndpoints, ASessionIsErased) {
  RunningServer running;
  TestClient client(running.port());
  const auto erase = [&](std::string_view path) {
    client.send(concat("DELETE ", path, " HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    return client.read_response();
  };
  const TestResponse done = erase("/admin/sessions/a%20b");
  EXPECT_EQ(done.status, 200);
  EXPECT_EQ(done.body, R"({"object":"session.deleted","id":"a b","deleted":true})");
  EXPECT_EQ(running.engine.erased, (CacheOwner{.tenant = 0, .session = CacheOwner::number_of("a b")}));
  EXPECT_EQ(erase("/admin/sessions/s?key=alice").status, 200);
  EXPECT_EQ(running.engine.erased.tenant, CacheOwner::number_of("alice"));
  EXPECT_EQ(running.engine.num_erases, 2);
  EXPECT_EQ(erase("/admin/sessions/s?tenant=alice").status, 400);
  EXPECT_EQ(client.get("/admin/sessions/s").status, 405);
  EXPECT_EQ(running.engine.num_erases, 2);
}

TEST(ControlEndpoints, WhatIsWrongIsSaid) {
  RunningServer running;
  TestClient client(running.port());
  for (const char* path : {"/sleep?level=3", "/sleep?level=", "/sleep?level=1&mode=never", "/sleep?depth=1",
                           "/sleep?level=%zz", "/wake_up?tags=everything", "/reset_prefix_cache?now=1"}) {
    const TestResponse refused = client.post(path, "");
    EXPECT_EQ(refused.status, 400) << path;
    EXPECT_NE(refused.body.find("\"error\""), std::string::npos) << path;
  }
  EXPECT_FALSE(running.engine.sleeping);
  EXPECT_EQ(client.get("/sleep").status, 405);
  EXPECT_EQ(client.post("/sleep", "", "Origin: http://elsewhere.example\r\n").status, 403);
  EXPECT_FALSE(running.engine.sleeping) << "a page of another site cannot";
}

TEST(ControlEndpoints, AreForAdministratorsWhereThereAreKeys) {
  ServerConfig config;
  config.api_key_file = ::testing::TempDir() + "pagoda_keys_control.yaml";
  std::ofstream(config.api_key_file) << "keys:\n- {name: alice, key: alices}\n"
                                        "- {name: ops, key: opss, role: admin}\n";
  RunningServer running(config);
  TestClient client(running.port());
  for (const char* path : {"/sleep", "/wake_up", "/reset_prefix_cache"}) {
    EXPECT_EQ(client.post(path, "", "Authorization: Bearer alices\r\n").status, 403) << path;
    EXPECT_EQ(client.post(path, "").status, 401) << path;
    EXPECT_EQ(client.post(path, "", "Authorization: Bearer opss\r\n").status, 200) << path;
  }
  for (const char* path : {"/is_sleeping", "/tokenizer_info"})
    EXPECT_EQ(client.get(path, "Authorization: Bearer alices\r\n").status, 403) << path;
}

}  // namespace
}  // namespace pagoda
