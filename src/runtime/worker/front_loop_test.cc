#include "src/runtime/worker/front_loop.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/runtime/fake_loop_for_test.h"

namespace byteps::runtime {
namespace {

// A FrontLoop without a view, until the test makes it a job of one or of two.
class FrontLoopTest : public testing::Test {
 protected:
  using Codes = std::vector<StatusCode>;

  FrontLoop& Start(Duration limit = Duration::zero()) {
    FrontLoop::Events events;
    events.to_lane = [](uint32_t, const protocol::LaneMail&) {};
    events.to_control = [this](const wire::Message& message) { control.push_back(message); };
    events.after = [this] { ++afters; };
    events.settled = [this] { ++settled; };
    events.may_abort = [this] {
      ++asked_to_abort;
      return true;
    };
    if (offers) {
      events.offer = [this](const std::function<void()>& submit) {
        ++offered;
        submit();
      };
    }
    events.is_lent = [this] { return is_lent; };
    return front_loop.emplace(loop, protocol::FrontOptions(), limit, std::move(events));
  }
  void BeAlone() {
    wire::View view;
    view.workers.emplace_back();
    front_loop->OnView(view, 0, 0);
  }
  // Operations wait for the coordinator, which never answers.
  void BeOneOfTwo() {
    wire::View view;
    view.workers.resize(2);
    view.workers[1].slot = view.workers[1].rank = 1;
    view.servers.emplace_back().shard_weights = {1};
    front_loop->OnView(view, 0, 0);
  }
  void Submit(const std::string& name) {
    protocol::Operation operation;
    operation.name = name;
    operation.spec = {wire::Op::kSum, DataType::kUint8, 0, {8}};
    operation.input = operation.output = memory.data();
    front_loop->Submit(std::move(operation), [this, name](protocol::Outcome outcome) {
      ends[name].push_back(outcome.status.code());
      order.push_back(name);
    });
  }

  FakeLoop loop;
  bool offers = false;
  bool is_lent = false;
  int offered = 0;
  int afters = 0;
  int settled = 0;
  int asked_to_abort = 0;
  std::array<std::byte, 8> memory{};
  std::vector<wire::Message> control;
  std::map<std::string, Codes> ends;
  std::vector<std::string> order;
  std::optional<FrontLoop> front_loop;
};

TEST_F(FrontLoopTest, TakesOperationsInTheirOrderAndEndsEachOnce) {
  Start();
  BeAlone();
  Submit("a");
  Submit("b");
  EXPECT_TRUE(ends.empty());
  loop.RunPosted();
  EXPECT_EQ(order, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(ends["a"], Codes{StatusCode::kOk});
  EXPECT_GT(afters, 0);
  front_loop->EndAll(Status(StatusCode::kInternal, "over"));
  EXPECT_EQ(order.size(), 2U);
}

TEST_F(FrontLoopTest, EndsAnOperationThatTheFrontRefuses) {
  Start();
  BeAlone();
  protocol::Operation operation;
  operation.name = "w";
  operation.spec = {wire::Op::kSum, DataType::kUint8, 0, {8}};
  operation.spec.process_set = 9;
  operation.input = operation.output = memory.data();
  Codes codes;
  front_loop->Submit(std::move(operation),
                     [&](protocol::Outcome outcome) { codes.push_back(outcome.status.code()); });
  loop.RunPosted();
  EXPECT_EQ(codes, Codes{StatusCode::kInvalidArgument});
}

TEST_F(FrontLoopTest, AfterItLeavesErrorsAreItsOwnShutdown) {
  for (bool leaves : {false, true}) {
    ends.clear();
    Start();
    BeOneOfTwo();
    Submit("w");
    loop.RunPosted();
    if (leaves) front_loop->Leave();
    front_loop->front().Stop(Status(StatusCode::kPeerLost, "worker 1 was lost"));
    EXPECT_EQ(ends["w"], Codes{leaves ? StatusCode::kShutdown : StatusCode::kPeerLost}) << leaves;
  }
}

TEST_F(FrontLoopTest, WhileTheLoopIsLentEndsWaitForItsOwnTurn) {
  Start();
  BeAlone();
  is_lent = true;
  Submit("w");
  loop.RunPosted();
  EXPECT_TRUE(ends.empty());
  ASSERT_TRUE(front_loop->HasEnds());
  is_lent = false;
  front_loop->TellEnds();
  EXPECT_EQ(ends["w"], Codes{StatusCode::kOk});
  EXPECT_FALSE(front_loop->HasEnds());
}

TEST_F(FrontLoopTest, OffersAUsersThreadTheWorkAndNeverTheLoopItself) {
  offers = true;
  Start();
  BeAlone();
  loop.is_in_loop = false;
  Submit("of a user");
  EXPECT_EQ(offered, 1);
  loop.is_in_loop = true;
  Submit("of a completion");
  EXPECT_EQ(offered, 1);
  loop.RunPosted();
  EXPECT_EQ(order.size(), 2U);
}

TEST_F(FrontLoopTest, OnceRefusedNothingBegins) {
  Start();
  BeAlone();
  loop.runs_at_once = true;
  EXPECT_TRUE(front_loop->Refuse());
  EXPECT_FALSE(front_loop->Refuse());
  Submit("w");
  EXPECT_EQ(ends["w"], Codes{StatusCode::kShutdown});
  EXPECT_EQ(front_loop->AddProcessSet(1, {0}).code(), StatusCode::kShutdown);
}

TEST_F(FrontLoopTest, AProcessSetIsInForceForWhatFollowsIt) {
  Start();
  BeAlone();
  Submit("before");
  loop.runs_at_once = true;
  EXPECT_TRUE(front_loop->AddProcessSet(1, {0}).ok());
  EXPECT_EQ(order, std::vector<std::string>{"before"});
  EXPECT_TRUE(front_loop->RemoveProcessSet(1).ok());
  EXPECT_FALSE(front_loop->RemoveProcessSet(1).ok());
}

TEST_F(FrontLoopTest, ALateOperationIsLookedAtUntilTheWorkerLeaves) {
  Start(seconds(2));
  BeOneOfTwo();
  Submit("w");
  loop.RunPosted();
  ASSERT_NE(loop.tick, nullptr);
  loop.tick();
  EXPECT_EQ(asked_to_abort, 0);
  loop.now += seconds(3);
  loop.tick();
  EXPECT_EQ(asked_to_abort, 1);
  loop.tick();
  EXPECT_EQ(asked_to_abort, 2);
  front_loop->Leave();
  loop.tick();
  EXPECT_EQ(asked_to_abort, 2);
}

TEST_F(FrontLoopTest, TheCoordinatorsQuestionsReachTheAccounts) {
  Start();
  BeAlone();
  wire::Alive question;
  question.asked = {{"w", {}}};
  front_loop->OnControl(question);
  const wire::Alive told = front_loop->Tell();
  ASSERT_TRUE(told.account.has_value());
  ASSERT_EQ(told.account->uses.size(), 1U);
  EXPECT_EQ(told.account->uses[0].use, question.asked[0]);
}

}  // namespace
}  // namespace byteps::runtime
