#include "server/http_request.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "server/access.h"
#include "server/http_response.h"

namespace pagoda {
namespace {

constexpr HttpLimits kLimits;

// The status that a head is answered with; 0 when it is served.
int judge(std::string_view head, HttpRequest& request) {
  std::size_t scanned = 0;
  const HeadScan scan = scan_head(head, scanned, kLimits);
  if (scan.error) return scan.error->status;
  if (scan.end == 0) return -1;
  const auto error = parse_head(head.substr(0, scan.end), kLimits, request);
  return error ? error->status : 0;
}

TEST(HttpHead, IsReadAsSent) {
  HttpRequest request;
  ASSERT_EQ(judge("POST /v1/x?a=b HTTP/1.1\r\nHost: h:1\r\nContent-Length:  5 \r\nX-Odd: a: b\r\n\r\nbody!",
                  request),
            0);
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.path, "/v1/x");
  EXPECT_EQ(request.content_length, 5u);
  EXPECT_EQ(request.header("x-odd"), "a: b");
  EXPECT_TRUE(request.keep_alive);
  EXPECT_TRUE(request.has_body());
}

// As a client sends it that takes us for a proxy.
TEST(HttpHead, AnAbsoluteTargetMeansItsPath) {
  struct Row {
    const char* target;
    const char* path;
  };
  for (const Row& row : {Row{"http://h:1/v1/models?x=y", "/v1/models"}, Row{"HTTP://H:1", "/"},
                         Row{"https://h:1?x", "/"}, Row{"http://h:1//a", "//a"}}) {
    HttpRequest request;
    EXPECT_EQ(judge(concat("GET ", row.target, " HTTP/1.1\r\nHost: h:1\r\n\r\n"), request), 0) << row.target;
    EXPECT_EQ(request.path, row.path);
  }
}

TEST(HttpHead, KeepAliveDependsOnVersionAndHeader) {
  const auto keeps = [](std::string_view version, std::string_view connection) {
    HttpRequest request;
    const std::string head = concat("GET / HTTP/", version, "\r\nHost: h\r\n", connection, "\r\n");
    EXPECT_EQ(judge(head, request), 0) << head;
    return request.keep_alive;
  };
  EXPECT_TRUE(keeps("1.1", ""));
  EXPECT_FALSE(keeps("1.1", "Connection: close\r\n"));
  EXPECT_FALSE(keeps("1.0", ""));
  EXPECT_TRUE(keeps("1.0", "Connection: Keep-Alive\r\n"));
}

struct BadHead {
  std::string head;
  int status;
};

TEST(HttpHead, FormsThatTwoReadersCouldReadDifferentlyAreRefused) {
  const std::string host = "Host: h\r\n";
  const auto head = [&](std::string_view headers) {
    return concat("POST / HTTP/1.1\r\n", host, headers, "\r\n");
  };
  std::string many;
  for (int i = 0; i < 101; ++i) many += concat("x", i, ": y\r\n");
  const BadHead bad[] = {
      {head("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), 400},
      {head("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"), 400},
      {head("Content-Length: 5\r\nContent-Length: 5\r\n"), 400},
      {head("Content-Length: 5\r\nContent-Length: 6\r\n"), 400},
      {head("Content-Length: 5, 5\r\n"), 400},
      {head("Content-Length: +5\r\n"), 400},
      {head("Content-Length: -5\r\n"), 400},
      {head("Content-Length: 0x5\r\n"), 400},
      {head("Content-Length: 5a\r\n"), 400},
      {head("Content-Length: \r\n"), 400},
      {head("Content-Length: 99999999999999999999\r\n"), 400},
      {head("Transfer-Encoding: gzip\r\n"), 400},
      {head("Transfer-Encoding: gzip, chunked\r\n"), 400},
      {head("Transfer-Encoding: chunked, chunked\r\n"), 400},
      {head("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400},
      {head("Transfer-Encoding: xchunked\r\n"), 400},
      {head("Transfer-Encoding : chunked\r\n"), 400},
      {head("Transfer-Encoding:\x0b"
            "chunked\r\n"),
       400},
      {head("Content-Length : 5\r\n"), 400},
      {head("X: a\r\n b\r\n"), 400},
      {head("X: a\r\n\tb\r\n"), 400},
      {head(" X: a\r\n"), 400},
      {head("X: a\nY: b\r\n"), 400},
      {head("X: a\rY: b\r\n"), 400},
      {head(std::string_view("X: a\0b\r\n", 8)), 400},
      {head("X: a\x7f\r\n"), 400},
      {head("X\r\n"), 400},
      {head(": a\r\n"), 400},
      {head("X Y: a\r\n"), 400},
      {head("X(: a\r\n"), 400},
      {head("Host: other\r\n"), 400},
      {head("Expect: 200-ok\r\n"), 417},
      {head(many), 431},
      {head(concat("X: ", std::string(70'000, 'a'), "\r\n")), 431},
      {concat("GET /", std::string(8192, 'a'), " HTTP/1.1\r\n", host, "\r\n"), 414},
      {concat("GET /", std::string(9000, 'a')), 414},
      {"POST / HTTP/1.1\n" + host + "\r\n", 400},
      {"POST / HTTP/1.1\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost:\r\n\r\n", 400},
      {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {"POST / HTTP/2.0\r\n" + host + "\r\n", 505},
      {"POST / HTTP/1.2\r\n" + host + "\r\n", 505},
      {"POST /\r\n" + host + "\r\n", 400},
      {"POST / http/1.1\r\n" + host + "\r\n", 400},
      {"POST  / HTTP/1.1\r\n" + host + "\r\n", 400},
      {"POST /a b HTTP/1.1\r\n" + host + "\r\n", 400},
      {"POST http://other/ HTTP/1.1\r\n" + host + "\r\n", 400},
      {"POST http://u@h/ HTTP/1.1\r\n" + host + "\r\n", 400},
      {"POST ftp://h/ HTTP/1.1\r\n" + host + "\r\n", 400},
      {"POST http:///x HTTP/1.1\r\n" + host + "\r\n", 400},
      {"POST http://h#x HTTP/1.1\r\n" + host + "\r\n", 400},
      {"CONNECT h:80 HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET * HTTP/1.1\r\n" + host + "\r\n", 400},
      {"P(ST / HTTP/1.1\r\n" + host + "\r\n", 400},
      {" POST / HTTP/1.1\r\n" + host + "\r\n", 400},
      {"POST /\xc3\xa9 HTTP/1.1\r\n" + host + "\r\n", 400},
      {"\x16\x03\x01\x02", 400},
  };
  for (const BadHead& row : bad) {
    HttpRequest request;
    EXPECT_EQ(judge(row.head, request), row.status) << row.head.substr(0, 120);
  }
}

// A head may arrive in any pieces; the verdict is the same.
TEST(HttpHead, ArrivesInAnyPieces) {
  const std::string head = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
  std::size_t scanned = 0;
  for (std::size_t size = 1; size <= head.size(); ++size) {
    const HeadScan scan = scan_head(std::string_view(head).substr(0, size), scanned, kLimits);
    EXPECT_FALSE(scan.error);
    EXPECT_EQ(scan.end, size == head.size() ? size : 0);
  }
}

TEST(HttpResponse, EveryStatusInUseHasItsPhrase) {
  for (const int status : {200, 204, 400, 401, 403, 404, 405, 408, 409, 413, 415, 429, 431, 500, 503}) {
    HttpResponse response;
    response.status = status;
    EXPECT_EQ(write_response(response, {}).find("Unknown"), std::string::npos) << status;
  }
}

TEST(HostCheck, OnLoopbackOnlyLoopbackNames) {
  const HostCheck check("127.0.0.1", true, {"my.box"});
  for (const char* good : {"localhost", "localhost:8000", "127.0.0.1:1", "[::1]:8000", "LOCALHOST",
                           "my.box:8000", "0.0.0.0:8000", "host.docker.internal:8000",
                           "host.containers.internal", "192.168.1.7:80", "[::2]:1", "[::]"})
    EXPECT_TRUE(check.accepts(good)) << good;
  for (const char* bad :
       {"evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil:80",
        "[::1].evil.example", "0x7f.1", "2130706433", "1.2.3", "[::1%lo]", "[]", "docker.internal",
        "localhost:80@evil.example", "[::1]:80@evil.example", "localhost:80:80"})
    EXPECT_FALSE(check.accepts(bad)) << bad;
  EXPECT_TRUE(HostCheck("0.0.0.0", false, {}).accepts("evil.example"));
  EXPECT_TRUE(HostCheck("127.0.0.1", true, {"*"}).accepts("evil.example"));
  EXPECT_TRUE(HostCheck("127.0.0.1", true, {"MyBox"}).accepts("mybox:80"));
  EXPECT_TRUE(HostCheck("LocalHost.Example", true, {}).accepts("localhost.example"));
}

TEST(Cors, IsClosedUnlessListed) {
  EXPECT_EQ(allowed_origin("http://a", {}), "");
  EXPECT_EQ(allowed_origin("http://a", {"http://b"}), "");
  EXPECT_EQ(allowed_origin("http://a", {"http://b", "http://a"}), "http://a");
  EXPECT_EQ(allowed_origin("http://a", {"*"}), "*");
  EXPECT_EQ(allowed_origin("", {"*"}), "");
}

TEST(Chunks, CarryTheirLength) {
  std::string out;
  append_chunk(out, "");
  append_chunk(out, std::string(26, 'x'));
  EXPECT_EQ(out, "1a\r\n" + std::string(26, 'x') + "\r\n");
}

}  // namespace
}  // namespace pagoda
