// Tests the status page as text, as JSON and as metrics.
#include "src/runtime/seeing/status_page.h"

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
                    0.125,
                    protocol::Lateness::Late{0.1, 0.1, 7, 0.1, 9},
                    {}};
  MemberStatus late = fast;
  late.index = 1;
  late.late = protocol::Lateness::Late{101.2, 99.8, 7, 103.4, 9};
  MemberStatus server;
  server.role = Role::kServer;
  server.index = 0;
  server.state = MemberState::kSilent;
  server.process = 43;
  server.node = "b";
  server.address = "10.0.0.2:1";
  server.silent = seconds(2);
  server.server = {{4000, 3000, 1'500'000, {}}, {}, 2e6, 1e6, 0.07};
  server.ways = {{"rdma mlx5_0", 2, {0, 1}}, {"tcp", 1, {}}};
  page.status.members = {fast, late, server};
  page.status.waits = {
      {{"x\n\"y\"", {0, 0, 4}}, 7, seconds(62), {0}, {1}, {}, wire::UseStage::kExchanges}};
  page.status.names[7] = "grad.w";
  page.status.sums = "sums depend on ranks alone";
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

// Returns a page with everything that a page can say. The tests compare each format to the last
// character.
StatusPage Everything() {
  StatusPage page = Example();
  std::vector<MemberStatus>& members = page.status.members;
  members[0].account->open = 2;
  members[0].account->ended = 30;
  members[0].account->failed = 1;
  members[0].account->bytes = 5000;
  members[0].account->idle_ms = 4;
  members[0].account->waited_us = 2'500'000;
  MemberStatus away = members[1];
  away.index = 2;
  away.state = MemberState::kAway;
  away.silent = milliseconds(3400);
  away.late.reset();
  MemberStatus left = away;
  left.index = 3;
  left.state = MemberState::kLeft;
  left.account.reset();
  MemberStatus waits;
  waits.state = MemberState::kWaits;
  members.insert(members.begin() + 2, {away, left, waits});
  page.status.generation = 2;
  page.status.gathers = "worker 4 is missing";
  page.status.waits.push_back(
      {{"z", {0, 0, 1}}, 8, seconds(3), {1, 2}, {}, {2}, wire::UseStage::kPrepares});
  return page;
}

TEST(StatusPageTest, TheWholeText) {
  EXPECT_EQ(TextOf(Everything()), R"(BytePS 1.2.3, job j: waits for its next workers
2023-11-14 22:13:20 UTC, this process runs for 65 s
view 3, generation 2: 3 of 2 workers, 1 of 1 servers
waiting: worker 4 is missing
sums depend on ranks alone

member     no  state    process  host                 op/s      MB/s   open  wait %   late ms
worker      0  in            41  a                     3.0      2.00      2    12.5       0.1
worker      1  in            41  a                     3.0      2.00      0    12.5     101.2
worker      2  away          41  a                     3.0      2.00      0    12.5  3.4 s
worker      3  left          41  a
worker      -  waits
server      0  silent        43  b                10.0.0.2:1  in 2.00, out 1.00 MB/s, CPU 7 %  2.0 s
               connections: 2 over rdma mlx5_0 (rank 0, 1); 1 over tcp

late: rank 1 by 101 ms on average, by 103 ms for 'grad.w'

open for long:
  62 s  'x?"y"': rank 0 waits for the sum; not begun by rank 1
  3 s  'z': rank 1, 2 prepares its pieces; no answer from rank 2

news:
  2023-11-14 22:13:20  worker 2 (process 44 on c) was lost: closed

live plots: /live   JSON: /status.json   Prometheus: /metrics
)");
}

TEST(StatusPageTest, TheWholeJson) {
  EXPECT_EQ(JsonOf(Everything()),
            R"({"version":"1.2.3","job":"j","now_ms":1700000000000,"up_s":65.000,)"
            R"("state":"waits for its next workers","epoch":3,"generation":2,)"
            R"("workers_expected":2,"servers_expected":1,"waiting_for":"worker 4 is missing",)"
            R"("sums":"sums depend on ranks alone",)"
            R"("late_rank":1,"members":[{"role":"worker","index":0,"state":"in","process":41,)"
            R"("host":"a","address":"","silent_ms":0,"ended":30,"failed":1,"bytes":5000,)"
            R"("open":2,"idle_ms":4,"operations_per_s":3.000,"bytes_per_s":2000000,)"
            R"("waited_us":2500000,"waited_share":0.1250,)"
            R"("late":{"mean_ms":0.100,"last_ms":0.100,"rounds":9,"tensor":"grad.w",)"
            R"("tensor_ms":0.100}},{"role":"worker","index":1,"state":"in","process":41,)"
            R"("host":"a","address":"","silent_ms":0,"ended":0,"failed":0,"bytes":0,"open":0,)"
            R"("idle_ms":0,"operations_per_s":3.000,"bytes_per_s":2000000,)"
            R"("waited_us":0,"waited_share":0.1250,)"
            R"("late":{"mean_ms":101.200,"last_ms":99.800,"rounds":9,"tensor":"grad.w",)"
            R"("tensor_ms":103.400}},{"role":"worker","index":2,"state":"away","process":41,)"
            R"("host":"a","address":"","silent_ms":3400,"ended":0,"failed":0,"bytes":0,)"
            R"("open":0,"idle_ms":0,"operations_per_s":3.000,"bytes_per_s":2000000,)"
            R"("waited_us":0,"waited_share":0.1250},)"
            R"({"role":"worker","index":3,"state":"left","process":41,"host":"a",)"
            R"("address":"","silent_ms":3400},{"role":"worker","index":-1,"state":"waits",)"
            R"("process":0,"host":"","address":"","silent_ms":0},{"role":"server","index":0,)"
            R"("state":"silent","process":43,"host":"b","address":"10.0.0.2:1",)"
            R"("silent_ms":2000,"received":4000,"sent":3000,"cpu_us":1500000,)"
            R"("received_per_s":2000000,"sent_per_s":1000000,"cpu_share":0.0700,)"
            R"("connections":[{"over":"rdma mlx5_0","connections":2,"ranks":[0,1]},)"
            R"({"over":"tcp","connections":1,"ranks":[]}]}],)"
            R"("waits":[{"tensor":"x?\"y\"","age_ms":62000,)"
            R"("stage":"waits for the sum","waiting":[0],"missing":[1],"silent":[]},)"
            R"({"tensor":"z","age_ms":3000,"stage":"prepares its pieces","waiting":[1,2],)"
            R"("missing":[],"silent":[2]}],"said":[{"at_ms":1700000000000,)"
            R"("text":"worker 2 (process 44 on c) was lost: closed"}]})"
            "\n");
}

constexpr std::string_view kEveryMetric =
    R"(# HELP byteps_build_info The version that runs; always 1.
# TYPE byteps_build_info gauge
byteps_build_info{version="1.2.3",byteps_job="j"} 1
# HELP byteps_up_seconds How long the answering process runs.
# TYPE byteps_up_seconds gauge
byteps_up_seconds{byteps_job="j"} 65
# HELP byteps_view_epoch Number of the view in force; 0: none yet.
# TYPE byteps_view_epoch gauge
byteps_view_epoch{byteps_job="j"} 3
# HELP byteps_workers_expected Workers of the job.
# TYPE byteps_workers_expected gauge
byteps_workers_expected{byteps_job="j"} 2
# HELP byteps_servers_expected Servers of the job.
# TYPE byteps_servers_expected gauge
byteps_servers_expected{byteps_job="j"} 1
# HELP byteps_members Members by role and state.
# TYPE byteps_members gauge
byteps_members{role="worker",state="waits",byteps_job="j"} 1
byteps_members{role="worker",state="in",byteps_job="j"} 2
byteps_members{role="worker",state="silent",byteps_job="j"} 0
byteps_members{role="worker",state="away",byteps_job="j"} 1
byteps_members{role="worker",state="left",byteps_job="j"} 1
byteps_members{role="server",state="waits",byteps_job="j"} 0
byteps_members{role="server",state="in",byteps_job="j"} 0
byteps_members{role="server",state="silent",byteps_job="j"} 1
byteps_members{role="server",state="away",byteps_job="j"} 0
byteps_members{role="server",state="left",byteps_job="j"} 0
# HELP byteps_open_for_long Operations that are open for more than a second.
# TYPE byteps_open_for_long gauge
byteps_open_for_long{byteps_job="j"} 2
# HELP byteps_longest_wait_seconds Age of the oldest of these.
# TYPE byteps_longest_wait_seconds gauge
byteps_longest_wait_seconds{byteps_job="j"} 62
# HELP byteps_operations_total Operations that have ended.
# TYPE byteps_operations_total counter
byteps_operations_total{rank="0",host="a",byteps_job="j"} 30
byteps_operations_total{rank="1",host="a",byteps_job="j"} 0
byteps_operations_total{rank="2",host="a",byteps_job="j"} 0
# HELP byteps_operations_failed_total Operations that ended in an error.
# TYPE byteps_operations_failed_total counter
byteps_operations_failed_total{rank="0",host="a",byteps_job="j"} 1
byteps_operations_failed_total{rank="1",host="a",byteps_job="j"} 0
byteps_operations_failed_total{rank="2",host="a",byteps_job="j"} 0
# HELP byteps_bytes_total Bytes that the rank gave to operations.
# TYPE byteps_bytes_total counter
byteps_bytes_total{rank="0",host="a",byteps_job="j"} 5000
byteps_bytes_total{rank="1",host="a",byteps_job="j"} 0
byteps_bytes_total{rank="2",host="a",byteps_job="j"} 0
# HELP byteps_operations_open Operations that are open.
# TYPE byteps_operations_open gauge
byteps_operations_open{rank="0",host="a",byteps_job="j"} 2
byteps_operations_open{rank="1",host="a",byteps_job="j"} 0
byteps_operations_open{rank="2",host="a",byteps_job="j"} 0
# HELP byteps_waited_seconds_total Time in which the rank has waited for operations.
# TYPE byteps_waited_seconds_total counter
byteps_waited_seconds_total{rank="0",host="a",byteps_job="j"} 2.5
byteps_waited_seconds_total{rank="1",host="a",byteps_job="j"} 0
byteps_waited_seconds_total{rank="2",host="a",byteps_job="j"} 0
# HELP byteps_late_seconds How late the rank comes, mean of latest rounds.
# TYPE byteps_late_seconds gauge
byteps_late_seconds{rank="0",host="a",byteps_job="j"} 0.0001
byteps_late_seconds{rank="1",host="a",byteps_job="j"} 0.1012
byteps_late_seconds{rank="2",host="a",byteps_job="j"} 0
# HELP byteps_server_received_bytes_total Bytes of contributions that the server took in.
# TYPE byteps_server_received_bytes_total counter
byteps_server_received_bytes_total{server="0",host="b",byteps_job="j"} 4000
# HELP byteps_server_sent_bytes_total Bytes of sums that the server sent.
# TYPE byteps_server_sent_bytes_total counter
byteps_server_sent_bytes_total{server="0",host="b",byteps_job="j"} 3000
# HELP byteps_server_cpu_seconds_total Processor time of the server's process.
# TYPE byteps_server_cpu_seconds_total counter
byteps_server_cpu_seconds_total{server="0",host="b",byteps_job="j"} 1.5
# HELP byteps_server_connections Connections for data, by how they travel.
# TYPE byteps_server_connections gauge
byteps_server_connections{server="0",host="b",over="rdma mlx5_0",byteps_job="j"} 2
byteps_server_connections{server="0",host="b",over="tcp",byteps_job="j"} 1
# HELP byteps_silent_seconds Since the member was heard last.
# TYPE byteps_silent_seconds gauge
byteps_silent_seconds{role="worker",index="0",byteps_job="j"} 0.000
byteps_silent_seconds{role="worker",index="1",byteps_job="j"} 0.000
byteps_silent_seconds{role="worker",index="2",byteps_job="j"} 3.400
byteps_silent_seconds{role="server",index="0",byteps_job="j"} 2.000
)";

TEST(StatusPageTest, TheWholeMetrics) { EXPECT_EQ(MetricsOf(Everything()), kEveryMetric); }

TEST(StatusPageTest, WhoIsLateByLittleIsNotNamed) {
  StatusPage page = Example();
  page.status.names.clear();
  EXPECT_TRUE(Says(TextOf(page), "\nlate: rank 1 by 101 ms on average\n")) << TextOf(page);
  page.status.members[1].late->mean_ms = 5;
  EXPECT_TRUE(Says(TextOf(page), "\nlate: rank 1 by 5 ms"));
  page.status.members[1].late->mean_ms = 4.9;
  EXPECT_FALSE(Says(TextOf(page), "\nlate: "));
  EXPECT_TRUE(Says(JsonOf(page), R"("late_rank":-1,)"));
  page.status.members[0].late->mean_ms = 6;
  page.status.members[1].late->mean_ms = 6;
  EXPECT_TRUE(Says(JsonOf(page), R"("late_rank":0,)")) << "the first of equals";
}

TEST(StatusPageTest, TheStateOfTheJobIsOneOfFour) {
  StatusPage page;
  EXPECT_TRUE(Says(JsonOf(page), R"("state":"has not begun")"));
  page.status.epoch = 1;
  EXPECT_TRUE(Says(JsonOf(page), R"("state":"runs")"));
  page.status.gathers = "worker 1 is missing";
  EXPECT_TRUE(Says(JsonOf(page), R"("state":"waits for its next workers")"));
  page.status.asks_members = true;
  EXPECT_TRUE(Says(JsonOf(page), "was started again and asks what was decided"));
}

TEST(StatusPageTest, AnEmptyPageHasNoEmptyParts) {
  StatusPage page;
  const std::string text = TextOf(page);
  for (const char* part : {"waiting:", "late:", "open for long", "news:"}) {
    EXPECT_FALSE(Says(text, part)) << text;
  }
}

TEST(StatusPageTest, LongTextsAreCut) {
  StatusPage page;
  const std::string shown(600, 'x');
  page.job.assign(601, 'x');
  EXPECT_TRUE(Says(JsonOf(page), shown));
  EXPECT_FALSE(Says(JsonOf(page), page.job));
  page.job = "a~ \x7f";
  EXPECT_TRUE(Says(JsonOf(page), R"("job":"a~ ?")"));
}

TEST(StatusPageTest, NamesCannotBreakJsonOrMetrics) {
  StatusPage page = Example();
  page.status.members[0].node = "a\"} 1\n\\evil";
  EXPECT_TRUE(Says(JsonOf(page), R"("tensor":"x?\"y\"")")) << JsonOf(page);
  EXPECT_TRUE(Says(JsonOf(page), R"("host":"a\"} 1?\\evil")")) << JsonOf(page);
  const std::string metrics = MetricsOf(page);
  EXPECT_TRUE(Says(metrics, R"(host="a\"} 1?\\evil",byteps_job="j"} 0)")) << metrics;
}

TEST(StatusPageTest, MetricsHaveATypeAndAValuePerRank) {
  const std::string text = MetricsOf(Example());
  EXPECT_TRUE(Says(text, "# TYPE byteps_late_seconds gauge\n")) << text;
  EXPECT_TRUE(Says(text, R"(byteps_late_seconds{rank="1",host="a",byteps_job="j"} 0.1012)"))
      << text;
  EXPECT_TRUE(Says(text, R"(byteps_members{role="server",state="silent",byteps_job="j"} 1)"))
      << text;
  EXPECT_TRUE(Says(text, R"(byteps_longest_wait_seconds{byteps_job="j"} 62)")) << text;
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
