#include "src/session/tcp_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace byteps::session {
namespace {

using ::testing::HasSubstr;

transport::TcpOptions OptionsFor(const std::string& congestion) {
  Log log("test", "fatal", true);
  config::Options options;
  if (!congestion.empty()) options.tcp_congestion = congestion;
  transport::TcpOptions tcp = TcpOptionsOf(options, log);
  tcp.on_long_path = nullptr;  // they hold the log
  tcp.on_shortage = nullptr;
  return tcp;
}

TEST(TcpOptionsTest, OnlyLongPathsGetAnotherCongestionControlByDefault) {
  for (const char* congestion : {"", "auto"}) {
    EXPECT_EQ(OptionsFor(congestion).congestion_control, "");
    EXPECT_EQ(OptionsFor(congestion).long_path_congestion_control, "bbr");
  }
}

TEST(TcpOptionsTest, TheUserMayTakeTheSystemsOrNameOne) {
  EXPECT_EQ(OptionsFor("system").congestion_control, "");
  EXPECT_EQ(OptionsFor("system").long_path_congestion_control, "");
  EXPECT_EQ(OptionsFor("reno").congestion_control, "reno");
  EXPECT_EQ(OptionsFor("reno").long_path_congestion_control, "");
}

TEST(LongPathNewsTest, EachKindIsToldOnce) {
  LongPathNews teller;
  const transport::LongPath good{"10.0.0.1:9000", microseconds(50'100), "bbr", ""};
  const transport::LongPath bad{"10.0.0.2:9000", milliseconds(50), "cubic", "No such file"};
  auto line = teller.On(good);
  ASSERT_TRUE(line.has_value());
  EXPECT_FALSE(line->is_warning);
  EXPECT_EQ(line->text,
            "the path to 10.0.0.1:9000 is long, 50.1 ms there and back; its congestion control is "
            "bbr");
  EXPECT_FALSE(teller.On(good).has_value());
  line = teller.On(bad);
  ASSERT_TRUE(line.has_value());
  EXPECT_TRUE(line->is_warning);
  EXPECT_THAT(line->text, HasSubstr("congestion control is cubic, because the system does not let "
                                    "this process choose bbr (No such file)"));
  EXPECT_FALSE(teller.On(bad).has_value());
}

}  // namespace
}  // namespace byteps::session
