#include "src/runtime/seeing/status_request.h"

#include <gtest/gtest.h>

namespace byteps::runtime {
namespace {

StatusRequest RequestOf(const std::string& bytes, size_t part) {
  StatusRequest request;
  for (size_t at = 0; at < bytes.size(); at += part) request.Take(bytes.substr(at, part));
  return request;
}

TEST(StatusRequestTest, KeepsTheFirstLineAndTheHostHoweverTheyAreCut) {
  const std::string text =
      "GET /metrics?x=1 HTTP/1.1\r\nAccept: */*\r\nhOsT: \t node7:90 \r\nHost: later\r\n\r\nmore";
  for (size_t part = 1; part <= text.size(); ++part) {
    const StatusRequest request = RequestOf(text, part);
    EXPECT_TRUE(request.whole());
    EXPECT_TRUE(request.speaks_http());
    EXPECT_FALSE(request.too_long());
    EXPECT_EQ(request.path(), "/metrics");
    EXPECT_EQ(request.host(), "node7:90");
  }
}

TEST(StatusRequestTest, WhatDoesNotEndIsNotWhole) {
  StatusRequest request = RequestOf("GET /a HTTP/1.1\nHost: b", 5);
  EXPECT_FALSE(request.whole());
  EXPECT_EQ(request.path(), "/a");
  EXPECT_FALSE(request.host().has_value());
  request.End();
  EXPECT_FALSE(request.whole());
  EXPECT_EQ(request.host(), "b");
}

TEST(StatusRequestTest, OtherWordsAreNoPath) {
  for (const char* text : {"", "\n", "POST / HTTP/1.1\n\n", "get / HTTP/1.1\n\n", "\xff\n"}) {
    EXPECT_EQ(RequestOf(text, 3).path(), "") << text;
  }
  EXPECT_TRUE(RequestOf("POST / HTTP/1.1\n", 3).speaks_http());
  EXPECT_FALSE(RequestOf("GET /\n", 3).speaks_http());
}

TEST(StatusRequestTest, HeadNamesAPath) {
  const StatusRequest request = RequestOf("HEAD /metrics?x HTTP/1.1\n\n", 4);
  EXPECT_TRUE(request.asks_for_head());
  EXPECT_EQ(request.path(), "/metrics");
  EXPECT_FALSE(RequestOf("GET /metrics HTTP/1.1\n\n", 4).asks_for_head());
}

TEST(StatusRequestTest, LongHeadersAreDroppedAndTheRestIsRead) {
  const std::string cookies = "Cookie: " + std::string(16 << 10, 'c') + "\r\n";
  const StatusRequest request =
      RequestOf("GET /a HTTP/1.1\r\n" + cookies + "Host: b\r\n\r\n", 1000);
  EXPECT_TRUE(request.whole());
  EXPECT_FALSE(request.too_long());
  EXPECT_EQ(request.path(), "/a");
  EXPECT_EQ(request.host(), "b");
}

TEST(StatusRequestTest, WhatIsLongerThanAnybodyNeedsIsToldApart) {
  EXPECT_TRUE(
      RequestOf("GET /" + std::string(StatusRequest::kLineBytesMax, 'a') + "\n", 100).too_long());
  const std::string header(1000, 'h');
  std::string many = "GET /a HTTP/1.1\n";
  while (many.size() <= StatusRequest::kBytesMax) many += header + "\n";
  EXPECT_TRUE(RequestOf(many, 1000).too_long());
  EXPECT_EQ(RequestOf(many, 1000).path(), "/a");
}

TEST(StatusRequestTest, AddressesAndOwnNamesMeanThisMachine) {
  const std::vector<std::string> names = {"localhost", "node7"};
  for (const char* host : {"127.0.0.1", "127.0.0.1:9010", "10.0.0.3:1", "[::1]", "[fd00::1]:9010",
                           "localhost", "LocalHost:9010", "localhost.", "node7:80", "NODE7"}) {
    EXPECT_TRUE(MeansThisMachine(host, names)) << host;
  }
  for (const char* host :
       {"", ":80", "evil.example", "localhost.evil.example", "node7.evil.example",
        "127.0.0.1.evil.example", "[::1", "[evil]", "1.2.3", "[127.0.0.1]", "."}) {
    EXPECT_FALSE(MeansThisMachine(host, names)) << host;
  }
}

}  // namespace
}  // namespace byteps::runtime
