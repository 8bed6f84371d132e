// What the status page says, as text, as JSON and as metrics.
#include "src/runtime/status_page.h"

#include <gtest/gtest.h>

namespace byteps::runtime {
namespace {

using protocol::MemberState;
using protocol::MemberStatus;

bool Says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

StatusPage Example() {
  StatusPage page;
  page.job = "j";
  page.version = "1.2.3";
  page.up_s = 65;
  page.now_ms = 1'700'000'000'000;
  page.status.epoch = 3;
  page.status.workers_expected = 2;
  page.status.servers_expected = 1;
  MemberStatus fast{Role::kWorker,
                    0,
                    MemberState::kIn,
                    41,
                    "a",
                    "",
                    {},
                    wire::Account(),
                    3,
                    2e6,
                    protocol::Lateness::Late{0.1, 0.1, 7, 0.1, 9}};
  MemberStatus late = fast;
  late.index = 1;
  late.late = protocol::Lateness::Late{101.2, 99.8, 7, 103.4, 9};
  MemberStatus server{
      Role::kServer, 0, MemberState::kSilent, 43, "b", "10.0.0.2:1", seconds(2), {}, 0, 0, {}};
  page.status.members = {fast, late, server};
  page.status.waits = {
      {{"x\n\"y\"", {0, 0, 4}}, 7, seconds(62), {0}, {1}, {}, wire::UseStage::kExchanges}};
  page.status.names[7] = "grad.w";
  page.said = {{1'700'000'000'000, "worker 2 (process 44 on c) was lost: closed"}};
  return page;
}

TEST(StatusPageTest, ThePageNamesWhoIsLateStoppedAndLost) {
  const std::string text = TextOf(Example());
  EXPECT_TRUE(Says(text, "view 3, generation 0: 2 of 2 workers, 1 of 1 servers")) << text;
  EXPECT_TRUE(Says(text, "late: rank 1 by 101 ms on average, by 103 ms for 'grad.w'")) << text;
  EXPECT_TRUE(Says(text, "server      0  silent        43  b")) << text;
  EXPECT_TRUE(Says(text, "62 s  'x?\"y\"': rank 0 waits for the sum; not begun by rank 1")) << text;
  EXPECT_TRUE(Says(text, "worker 2 (process 44 on c) was lost")) << text;
}

TEST(StatusPageTest, NamesCannotBreakJsonOrMetrics) {
  StatusPage page = Example();
  page.status.members[0].node = "a\"} 1\n\\evil";
  EXPECT_TRUE(Says(JsonOf(page), R"("tensor":"x?\"y\"")")) << JsonOf(page);
  EXPECT_TRUE(Says(JsonOf(page), R"("host":"a\"} 1?\\evil")")) << JsonOf(page);
  EXPECT_TRUE(Says(MetricsOf(page), R"(host="a\"} 1?\\evil"} 0)")) << MetricsOf(page);
}

TEST(StatusPageTest, MetricsHaveATypeAndAValuePerRank) {
  const std::string text = MetricsOf(Example());
  EXPECT_TRUE(Says(text, "# TYPE byteps_late_seconds gauge\n")) << text;
  EXPECT_TRUE(Says(text, "byteps_late_seconds{rank=\"1\",host=\"a\"} 0.1012\n")) << text;
  EXPECT_TRUE(Says(text, "byteps_members{role=\"server\",state=\"silent\"} 1\n")) << text;
  EXPECT_TRUE(Says(text, "byteps_longest_wait_seconds 62\n")) << text;
}

TEST(StatusPageTest, AJobThatHasNotBegunSaysWhoIsMissing) {
  StatusPage page;
  page.status.gathers = "1/2 workers, 0/1 servers; missing worker 1";
  EXPECT_TRUE(Says(TextOf(page), "waiting: 1/2 workers, 0/1 servers; missing worker 1"));
  EXPECT_TRUE(Says(JsonOf(page), R"("waiting_for":"1/2 workers, 0/1 servers; missing worker 1")"));
}

TEST(StatusPageTest, TheLivePageLoadsNothingFromElsewhere) {
  EXPECT_FALSE(Says(std::string(LivePage()), "://"));
}

}  // namespace
}  // namespace byteps::runtime
