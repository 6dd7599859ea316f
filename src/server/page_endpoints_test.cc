#include "server/page_endpoints.h"

#include <gtest/gtest.h>

#include <set>

#include "page/page_files.h"
#include "server/running_server.h"
#include "server/test_client.h"

namespace pagoda {
namespace {

TEST(PageFiles, AreThereOnceAndPacked) {
  std::set<std::string_view> paths;
  for (const PageFile& file : page_files()) {
    EXPECT_TRUE(paths.insert(file.path).second) << file.path;
    EXPECT_FALSE(file.plain.empty()) << file.path;
    EXPECT_TRUE(file.gzip.starts_with("\x1f\x8b")) << file.path;
    EXPECT_TRUE(file.path == "/" || file.path.starts_with("/ui/")) << file.path;
  }
  ASSERT_TRUE(paths.contains("/"));
  EXPECT_EQ(find_page_file("/")->plain.find("@FILES@"), std::string_view::npos);
  EXPECT_EQ(find_page_file("/x"), nullptr);
}

TEST(PageEndpoints, GiveTheFileAsItIsOrPackedOrNotAgain) {
  RunningServer running;
  TestClient client(running.port());
  const PageFile& index = *find_page_file("/");
  TestResponse answer = client.get("/");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, index.plain);
  EXPECT_TRUE(answer.headers["content-security-policy"].starts_with("default-src 'none'"));
  EXPECT_EQ(client.get("/", "Accept-Encoding: br, gzip\r\n").body, index.gzip);
  EXPECT_EQ(client.get("/", "Accept-Encoding: gzip;q=0\r\n").body, index.plain);
  client.send(concat("GET / HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: \"", index.tag, "\"\r\n\r\n"));
  answer = client.read_response(/*head_only=*/true);
  EXPECT_EQ(answer.status, 304);
  EXPECT_FALSE(answer.headers.contains("content-length"));
  EXPECT_EQ(client.get("/health").status, 200);  // the connection is still in step
}

}  // namespace
}  // namespace pagoda
