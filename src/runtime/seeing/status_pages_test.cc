// Tests which path shows which content, and how often StatusPages asks the loop.
#include "src/runtime/seeing/status_pages.h"

#include <gtest/gtest.h>

#include <string>

#include "src/runtime/fake_loop_for_test.h"

namespace byteps::runtime {
namespace {

class StatusPagesTest : public testing::Test {
 protected:
  using Answer = StatusPort::Answer;

  StatusPagesTest() { loop.runs_at_once = true; }

  FakeLoop loop;
  int looks = 0;
  StatusPages pages{loop, [this] {
                      ++looks;
                      StatusPage page;
                      page.job = "j" + std::to_string(looks);
                      return page;
                    }};
};

TEST_F(StatusPagesTest, EachPathHasItsKindOfText) {
  StatusPort::Content text = pages("/");
  EXPECT_EQ(text.answer, Answer::kFound);
  EXPECT_EQ(text.type, "text/plain; charset=utf-8");
  EXPECT_NE(text.text.find("job j1"), std::string::npos) << text.text;
  StatusPort::Content json = pages("/status.json");
  EXPECT_EQ(json.answer, Answer::kFound);
  EXPECT_EQ(json.type, "application/json");
  EXPECT_NE(json.text.find(R"("job":"j)"), std::string::npos) << json.text;
  StatusPort::Content metrics = pages("/metrics");
  EXPECT_EQ(metrics.answer, Answer::kFound);
  EXPECT_EQ(metrics.type, "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_NE(metrics.text.find("byteps_up_seconds"), std::string::npos) << metrics.text;
  const int before = looks;
  StatusPort::Content live = pages("/live");
  EXPECT_EQ(live.answer, Answer::kFound);
  EXPECT_EQ(live.type, "text/html; charset=utf-8");
  EXPECT_EQ(live.text, LivePage());
  StatusPort::Content none = pages("/etc/passwd");
  EXPECT_EQ(none.answer, Answer::kNotFound);
  EXPECT_NE(none.text.find("Try /, /live"), std::string::npos) << none.text;
  EXPECT_EQ(looks, before) << "for these nobody asks the loop";
}

// However fast a guest asks, the loop is asked rarely: a few times if the machine stands still
// meanwhile.
TEST_F(StatusPagesTest, WhoAsksAgainAtOnceGetsTheSameState) {
  for (int i = 0; i < 1000; ++i) pages("/");
  EXPECT_GE(looks, 1);
  EXPECT_LT(looks, 500);
}

TEST_F(StatusPagesTest, ALoopThatDoesNotAnswerIsSaid) {
  loop.runs_at_once = false;
  StatusPort::Content text = pages("/");
  EXPECT_EQ(text.answer, Answer::kFound) << "who says nothing reads it, too";
  EXPECT_NE(text.text.find("does not answer"), std::string::npos) << text.text;
  EXPECT_EQ(looks, 0);
  loop.RunPosted();  // late: nobody waits any more
  EXPECT_EQ(looks, 0);
  EXPECT_EQ(pages("/metrics").answer, Answer::kNoAnswer);
}

}  // namespace
}  // namespace byteps::runtime
