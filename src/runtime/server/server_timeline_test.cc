#include "src/runtime/server/server_timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace byteps::runtime {
namespace {

using protocol::RoundMoment;
using ::testing::HasSubstr;

class ServerTimelineTest : public testing::Test {
 protected:
  ServerTimelineTest() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~ServerTimelineTest() override { std::filesystem::remove_all(folder_); }

  void Sum(const wire::PieceRef& ref) {
    for (RoundMoment moment : {RoundMoment::kBegun, RoundMoment::kComplete, RoundMoment::kSummed,
                               RoundMoment::kAnswered}) {
      watch_->On({moment, ref, 1, 16});
    }
  }
  std::string TextOf(const std::string& name) const {
    std::ifstream file(folder_ / name);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("server_timeline." + std::to_string(::getpid()));
  Log log_{"test", "error", true};
  TimelineLog entries_;
  protocol::RoundWatch* watch_ = entries_.NewRoundWatch();
};

TEST_F(ServerTimelineTest, ItsFileLiesBesideThatOfRank0) {
  EXPECT_EQ(ServerTimeline::FileOf("a/t.json", 3), "a/t.server3.json");
  EXPECT_EQ(ServerTimeline::FileOf("a.b/t", 0), "a.b/t.server0");
  EXPECT_EQ(ServerTimeline::FileOf(".t", 0), ".t.server0");
}

TEST_F(ServerTimelineTest, ARoundIsInTheFileWithItsStages) {
  {
    ServerTimeline timeline(folder_ / "t.json", entries_, log_);
    timeline.SetServer(2);
    timeline.Start();
    Sum({7, 4, 9});
  }
  const std::string text = TextOf("t.server2.json");
  EXPECT_THAT(text, HasSubstr(R"("server":2)"));
  EXPECT_THAT(text, HasSubstr(R"({"name":"WAIT","cat":"PIECE","ph":"X","pid":8,"tid":4,)"));
  EXPECT_THAT(text, HasSubstr(R"("args":{"tensor":7,"piece":4,"round":9,"last":1,"bytes":16}})"));
  EXPECT_THAT(text, HasSubstr(R"({"name":"SUM")"));
  EXPECT_THAT(text, HasSubstr(R"({"name":"ANSWER")"));
  EXPECT_TRUE(text.starts_with("[\n") && text.ends_with("}\n]")) << text;
}

TEST_F(ServerTimelineTest, AServerWithAnotherNumberBeginsAnotherFile) {
  {
    ServerTimeline timeline(folder_ / "t.json", entries_, log_);
    timeline.SetServer(0);
    timeline.Start();
    while (TextOf("t.server0.json").empty()) std::this_thread::yield();
    timeline.SetServer(1);
    while (TextOf("t.server1.json").empty()) std::this_thread::yield();
    Sum({7, 0, 1});
  }
  EXPECT_THAT(TextOf("t.server0.json"), Not(HasSubstr("WAIT")));
  EXPECT_THAT(TextOf("t.server1.json"), HasSubstr("WAIT"));
}

TEST_F(ServerTimelineTest, WithoutAPlaceForTheFileNothingIsRecorded) {
  {
    ServerTimeline timeline(folder_ / "no" / "t.json", entries_, log_);
    timeline.SetServer(0);
    timeline.Start();
    EXPECT_TRUE(entries_.on());
  }
  EXPECT_FALSE(entries_.on());
}

TEST_F(ServerTimelineTest, AServerWithoutANumberWritesNothing) {
  {
    ServerTimeline timeline(folder_ / "t.json", entries_, log_);
    timeline.Start();
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

}  // namespace
}  // namespace byteps::runtime
