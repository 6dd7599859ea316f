#include "hub/url.h"

#include <gtest/gtest.h>

namespace pagoda {
namespace {

TEST(Url, PartsAndOrigin) {
  const auto url = parse_url("HTTPS://Hub.Example:8443/a/b?c=d#e");
  ASSERT_TRUE(url);
  EXPECT_EQ(url->origin(), "https://hub.example:8443");
  EXPECT_EQ(url->target, "/a/b?c=d");
  EXPECT_EQ(parse_url("https://h:443")->origin(), parse_url("https://h/")->origin());
  EXPECT_NE(parse_url("http://h:443")->origin(), parse_url("https://h")->origin());
  EXPECT_EQ(parse_url("http://[::1]:80/")->authority(), "[::1]");
}

TEST(Url, WhatIsNoneIsRefused) {
  for (const char* bad :
       {"", "h", "ftp://h", "http://", "http://user@h/", "http://h/a b", "http://h/\r\nX: y", "http://h:1x",
        "http://h:123456", "http://[::1", "http://[::1]x"})
    EXPECT_FALSE(parse_url(bad)) << bad;
}

TEST(Url, Following) {
  const Url base = *parse_url("https://h/a/b");
  EXPECT_EQ(follow(base, "/c")->origin(), "https://h");
  EXPECT_EQ(follow(base, "//other/c")->origin(), "https://other");
  EXPECT_EQ(follow(base, "http://h/c")->tls, false);
  EXPECT_FALSE(follow(base, "c"));
  EXPECT_FALSE(follow(base, ""));
}

TEST(Url, PercentEncoding) { EXPECT_EQ(percent_encoded("a b/%\xc3\xa9?"), "a%20b/%25%C3%A9%3F"); }

}  // namespace
}  // namespace pagoda
