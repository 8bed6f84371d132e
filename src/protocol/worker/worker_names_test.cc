// Tests of what a worker asks and tells about names: many specs under one name, failures, and
// operations that do not end.
#include <gtest/gtest.h>

#include "src/protocol/kernel_arithmetic.h"
#include "src/protocol/worker/worker_for_test.h"

namespace byteps::protocol {
namespace {

using wire::Op;

class WorkerNamesTest : public testing::Test {
 protected:
  WorkerNamesTest() {
    worker.OnView(ViewFor(2, 1), 0);
    worker.OnShardUp(0);
    EXPECT_TRUE(worker.AddProcessSet(1, {0, 1}).ok());
  }

  Status Submit(OperationId id, Op op, int64_t bytes = 8, uint32_t process_set = 0,
                const std::string& name = "x") {
    Operation operation;
    operation.id = id;
    operation.name = name;
    operation.spec = {op, DataType::kUint8, 0, {bytes}, false, Op::kSum, process_set};
    if (op == Op::kJoin) operation.spec.shape.clear();
    memory.push_back(std::make_unique<std::byte[]>(64));
    operation.input = operation.output = memory.back().get();
    return worker.Submit(operation);
  }

  void Declared(TensorId tensor, uint32_t process_set = 0, uint32_t attempt = 0) {
    worker.OnDeclared({"x", process_set, attempt, tensor, {0, 1}});
  }

  // Lets the shard answer the last push.
  void Answer(StatusCode status = StatusCode::kOk) {
    wire::DataHeader header = driver.pushes.back().header;
    header.count = ++answers;
    header.process_set = 0;
    header.status = status;
    Result<ByteSpan> place = worker.OnAnswerHeader(0, header, 8);
    ASSERT_TRUE(place.ok()) << place.status().message();
    std::fill(place->begin(), place->end(), std::byte{7});
    worker.OnAnswer(0, now);
  }

  void Use(OperationId id, Op op, TensorId tensor) {
    ASSERT_TRUE(Submit(id, op).ok());
    if (asked().back().spec.op == op && asked().size() > answered) {
      ++answered;
      Declared(tensor);
    }
    EXPECT_EQ(driver.pushes.back().header.ref.tensor, tensor);
    Answer();
    EXPECT_TRUE(driver.outcomes[id].status.ok());
  }

  static wire::DeclareFailed Failure(const wire::Use& use,
                                     const std::vector<wire::NamedUse>& also = {}) {
    return {"x", use, {7}, StatusCode::kMismatch, "ranks disagree", also};
  }

  // Lets half a second pass.
  void Look() {
    now += milliseconds(500);
    worker.OnTick(now);
  }

  template <typename T>
  std::vector<T> Sent() const {
    std::vector<T> found;
    for (const wire::Message& message : driver.control) {
      if (const T* one = std::get_if<T>(&message)) found.push_back(*one);
    }
    return found;
  }
  std::vector<wire::Declare> asked() const { return Sent<wire::Declare>(); }
  std::vector<wire::OverdueUse> Told() const {
    std::vector<wire::OverdueUse> uses;
    for (const wire::Overdue& one : Sent<wire::Overdue>()) {
      uses.insert(uses.end(), one.uses.begin(), one.uses.end());
    }
    return uses;
  }
  StatusCode CodeOf(OperationId id) { return driver.outcomes.at(id).status.code(); }

  BufferPool pool;
  KernelArithmetic arithmetic;
  RecordingWorkerDriver driver;
  Worker worker{WorkerOptions(), pool, arithmetic, driver};
  std::vector<std::unique_ptr<std::byte[]>> memory;
  Time now = kStart;
  uint64_t answers = 0;
  size_t answered = 0;
};

TEST_F(WorkerNamesTest, RoundsCountTheUsesOfAllSpecs) {
  Use(1, Op::kSum, 7);
  Use(2, Op::kMax, 8);
  Use(3, Op::kSum, 7);
  Use(4, Op::kSum, 7);
  Use(5, Op::kMax, 8);
  ASSERT_EQ(asked().size(), 2u) << "once for each spec";
  EXPECT_EQ(asked()[1].round, 2u);
  for (size_t i = 0; i < driver.pushes.size(); ++i) {
    EXPECT_EQ(driver.pushes[i].header.ref.round, wire::RoundOf(i + 1, 0));
  }
  EXPECT_EQ(worker.Known()[0].tensors.size(), 2u);
}

TEST_F(WorkerNamesTest, AFailureEndsTheRoundAndForgetsAllSpecs) {
  Use(1, Op::kSum, 7);
  Use(2, Op::kMax, 8);
  ASSERT_TRUE(Submit(3, Op::kSum).ok());
  worker.OnDeclareFailed(Failure({0, 0, 3}));
  EXPECT_EQ(CodeOf(3), StatusCode::kMismatch);
  ASSERT_TRUE(Submit(4, Op::kMax).ok());
  EXPECT_EQ(asked().back().attempt, 1u);
  EXPECT_EQ(asked().back().round, 1u);
  Declared(9, 0, 1);
  EXPECT_EQ(driver.pushes.back().header.ref, (wire::PieceRef{9, 0, wire::RoundOf(1, 0)}));
  Answer();
  EXPECT_TRUE(driver.outcomes[4].status.ok());
  EXPECT_EQ(worker.Known()[0].tensors.size(), 1u);
  EXPECT_EQ(worker.Known()[0].failed.size(), 1u);
}

// The others have ended the name's round in an error, and disagree about the next one.
TEST_F(WorkerNamesTest, ARankThatIsBehindTakesPartInItsRoundFirst) {
  Use(1, Op::kSum, 7);
  worker.OnDeclareFailed(Failure({0, 0, 3}));
  ASSERT_TRUE(Submit(2, Op::kSum).ok());
  EXPECT_EQ(driver.pushes.back().header.ref.round, wire::RoundOf(2, 0));
  Answer(StatusCode::kDeadlineExceeded);
  EXPECT_EQ(CodeOf(2), StatusCode::kDeadlineExceeded) << "as the others had it";
  ASSERT_TRUE(Submit(3, Op::kSum).ok());
  EXPECT_EQ(CodeOf(3), StatusCode::kMismatch);
  ASSERT_TRUE(Submit(4, Op::kSum).ok());
  EXPECT_EQ(asked().back().attempt, 1u);
  EXPECT_EQ(asked().back().round, 1u);
}

TEST_F(WorkerNamesTest, ARankThatIsBehindWithANewSpecIsAnsweredOrFails) {
  Use(1, Op::kSum, 7);
  worker.OnDeclareFailed(Failure({0, 0, 4}));
  ASSERT_TRUE(Submit(2, Op::kMax).ok());
  EXPECT_EQ(asked().back().round, 2u);
  worker.OnDeclareFailed(Failure({0, 0, 4}));
  Declared(8);
  EXPECT_EQ(driver.pushes.back().header.ref, (wire::PieceRef{8, 0, wire::RoundOf(2, 0)}));
  Answer(StatusCode::kDeadlineExceeded);
  ASSERT_TRUE(Submit(3, Op::kProduct).ok());
  EXPECT_EQ(asked().back().round, 3u);
  worker.OnDeclareFailed(Failure({0, 0, 3}));
  EXPECT_EQ(CodeOf(3), StatusCode::kMismatch) << "nobody else has ever meant it";
  EXPECT_EQ(asked().size(), 3u);
}

// The round that fails has ended here in another error.
TEST_F(WorkerNamesTest, ARankThatIsPastAFailureGoesOnInTheNextAttempt) {
  Use(1, Op::kSum, 7);
  ASSERT_TRUE(Submit(2, Op::kSum).ok());
  Answer(StatusCode::kDeadlineExceeded);
  worker.OnDeclareFailed(Failure({0, 0, 2}));
  ASSERT_TRUE(Submit(3, Op::kSum).ok());
  EXPECT_EQ(asked().back().attempt, 1u);
  EXPECT_EQ(asked().back().round, 1u) << "the others begin it with this use, too";
}

TEST_F(WorkerNamesTest, AFailureOfALaterRoundWaitsForItWhateverTheSpec) {
  ASSERT_TRUE(Submit(1, Op::kSum).ok());
  Declared(7);
  worker.OnDeclareFailed(Failure({0, 0, 2}));
  Answer();
  EXPECT_TRUE(driver.outcomes[1].status.ok());
  ASSERT_TRUE(Submit(2, Op::kMax).ok());
  EXPECT_EQ(CodeOf(2), StatusCode::kMismatch) << "of a spec that it had not used yet";
  EXPECT_EQ(asked().size(), 1u);
}

TEST_F(WorkerNamesTest, ANameIsTakenInAllProcessSetsButCountsInEachForItself) {
  ASSERT_TRUE(Submit(1, Op::kSum).ok());
  Status taken = Submit(2, Op::kMax, 8, 1);
  EXPECT_EQ(taken.code(), StatusCode::kDuplicateName);
  EXPECT_NE(taken.message().find("sum of uint8[8]"), std::string::npos) << taken.message();
  Declared(7);
  Answer();
  ASSERT_TRUE(Submit(3, Op::kMax, 8, 1).ok());
  EXPECT_EQ(asked().back().round, 1u);
  Declared(7, 0);  // for the other process set
  EXPECT_EQ(driver.pushes.size(), 1u);
  Declared(8, 1);
  EXPECT_EQ(driver.pushes.back().header.process_set, 1u);
}

// One failure concerns two process sets. The set that the rank uses first raises it, and then it is
// over.
TEST_F(WorkerNamesTest, AFailureInTwoProcessSetsIsRaisedOnce) {
  worker.OnDeclareFailed(Failure({0, 0, 1}, {{"x", {1, 0, 1}}}));  // not known here
  Use(1, Op::kSum, 7);
  ASSERT_TRUE(Submit(2, Op::kSum, 8, 1).ok());
  ++answered;
  Declared(8, 1);
  Answer();
  worker.OnDeclareFailed(Failure({0, 0, 2}, {{"x", {1, 0, 2}}}));
  worker.OnDeclareFailed(Failure({1, 0, 2}, {{"x", {0, 0, 2}}}));
  ASSERT_TRUE(Submit(3, Op::kSum, 8, 1).ok());
  EXPECT_EQ(CodeOf(3), StatusCode::kMismatch);
  ASSERT_TRUE(Submit(4, Op::kSum).ok());
  EXPECT_EQ(asked().back().attempt, 1u) << "in the other process set it is over, too";
  Declared(9, 0, 1);
  Answer();
  EXPECT_TRUE(driver.outcomes[4].status.ok());
  ASSERT_TRUE(Submit(5, Op::kSum, 8, 1).ok());
  EXPECT_EQ(asked().back().attempt, 1u);
}

// The others failed while this rank had joined. The rank neither raises that failure nor falls
// behind.
TEST_F(WorkerNamesTest, AFailureOfWhoeverHadNotJoinedIsPassedOver) {
  Use(1, Op::kSum, 7);
  Operation join;
  join.id = 2;
  join.name = "join";
  join.spec = {Op::kJoin, DataType::kUint8};
  ASSERT_TRUE(worker.Submit(join).ok());
  worker.OnDeclared({"join", 0, 0, 20, {0, 1}});
  worker.OnDeclareFailed(Failure({0, 0, 2}));
  Answer();
  ASSERT_TRUE(driver.outcomes.at(2).status.ok());
  ASSERT_TRUE(Submit(3, Op::kMax).ok());
  EXPECT_EQ(asked().back().attempt, 1u);
  EXPECT_EQ(asked().back().round, wire::FirstRoundAfter(1) + 1);
  // The others failed a second time. This rank hears of it when it asks.
  worker.OnDeclareFailed(Failure({0, 1, 1}));
  EXPECT_FALSE(driver.outcomes.contains(3));
  EXPECT_EQ(asked().back().attempt, 2u);
  Declared(9, 0, 2);
  EXPECT_EQ(driver.pushes.back().header.ref.round, wire::RoundOf(wire::FirstRoundAfter(1) + 1, 0));
}

TEST_F(WorkerNamesTest, OperationsThatDoNotEndAreToldOnce) {
  Use(1, Op::kSum, 7);
  ASSERT_TRUE(Submit(2, Op::kSum, 8, 1).ok());
  Look();
  Look();
  EXPECT_TRUE(Told().empty()) << "it has said what it wants, and has no answer yet";
  Declared(8, 1);
  Look();
  ASSERT_EQ(Told().size(), 1u);
  EXPECT_EQ(Told()[0], (wire::OverdueUse{"x", {1, 0, 1}, 8, {{0, 0, 1}}}));
  EXPECT_EQ(Sent<wire::Overdue>()[0].process_sets,
            (std::vector<wire::ProcessSetRanks>{{1, {0, 1}}}));
  Look();
  Look();
  EXPECT_EQ(Told().size(), 1u);
  EXPECT_FALSE(worker.NextTick().has_value()) << "there is nothing more to tell";
  worker.AskAgain();  // a coordinator without memory
  ASSERT_EQ(Told().size(), 2u);
  EXPECT_EQ(Told()[1], Told()[0]);
  Answer();
  Look();
  EXPECT_EQ(Told().size(), 2u) << "an end in order needs no word";
}

TEST_F(WorkerNamesTest, WhatWasToldAndEndsInAnErrorIsTakenBack) {
  ASSERT_TRUE(Submit(1, Op::kSum).ok());
  Declared(7);
  Look();
  Look();
  ASSERT_EQ(Told().size(), 1u);
  Answer(StatusCode::kPeerLost);
  EXPECT_EQ(CodeOf(1), StatusCode::kPeerLost);
  ASSERT_EQ(Told().size(), 2u);
  EXPECT_EQ(Told()[1].tensor, UINT32_MAX);
  ASSERT_TRUE(Submit(2, Op::kSum).ok());
  Look();
  Look();
  ASSERT_EQ(Told().size(), 3u);
  worker.OnDeclareFailed(Failure({0, 0, 2}));
  EXPECT_EQ(Told().size(), 3u) << "the coordinator knows";
}

TEST_F(WorkerNamesTest, AFailureOfSeveralNamesIsRaisedOnce) {
  Use(1, Op::kSum, 7);
  worker.OnDeclareFailed(Failure({0, 0, 2}, {{"y", {0, 0, 1}}}));
  worker.OnDeclareFailed({"y", {0, 0, 1}, {}, StatusCode::kMismatch, "no", {{"x", {0, 0, 2}}}});
  ASSERT_TRUE(Submit(2, Op::kSum).ok());
  EXPECT_EQ(CodeOf(2), StatusCode::kMismatch);
  ASSERT_TRUE(Submit(3, Op::kSum, 8, 0, "y").ok());
  EXPECT_FALSE(driver.outcomes.contains(3));
  EXPECT_EQ(asked().back().name, "y");
  EXPECT_EQ(asked().back().attempt, 1u);
}

// Each open operation needs an end of its own.
TEST_F(WorkerNamesTest, AFailureOfSeveralOpenOperationsEndsEach) {
  ASSERT_TRUE(Submit(1, Op::kSum).ok());
  Declared(7);
  ASSERT_TRUE(Submit(2, Op::kSum, 8, 0, "y").ok());
  worker.OnDeclared({"y", 0, 0, 8, {0, 1}});
  worker.OnDeclareFailed(Failure({0, 0, 1}, {{"y", {0, 0, 1}}}));
  EXPECT_EQ(CodeOf(1), StatusCode::kMismatch);
  EXPECT_FALSE(driver.outcomes.contains(2));
  worker.OnDeclareFailed({"y", {0, 0, 1}, {8}, StatusCode::kMismatch, "no", {{"x", {0, 0, 1}}}});
  EXPECT_EQ(CodeOf(2), StatusCode::kMismatch);
  for (const char* name : {"x", "y"}) {
    ASSERT_TRUE(Submit(name[0], Op::kSum, 8, 0, name).ok());
    EXPECT_EQ(asked().back().attempt, 1u) << name;
  }
}

TEST_F(WorkerNamesTest, WhoIsStuckSaysSoAndWhatItHasNotBegun) {
  Use(1, Op::kSum, 7);
  ASSERT_TRUE(Submit(2, Op::kSum, 8, 0, "y").ok());
  ASSERT_TRUE(Submit(3, Op::kSum).ok());
  worker.SetStuck("x");
  EXPECT_TRUE(Told().empty()) << "nothing is overdue";
  Look();
  Look();
  ASSERT_EQ(Told().size(), 1u);
  EXPECT_TRUE(Told()[0].stuck);
  const wire::NamedUse stuck{"x", {0, 0, 2}};
  worker.OnUnbegun({stuck,
                    {{"x", {1, 0, 1}},
                     {"y", {0, 0, 1}},
                     {"y", {0, 0, 2}},
                     {"y", {0, 1, 1}},
                     {"y", {1, 0, 1}},
                     {"z", {0, 0, 1}}}});
  ASSERT_EQ(Sent<wire::Unbegun>().size(), 1u);
  EXPECT_EQ(Sent<wire::Unbegun>()[0], (wire::Unbegun{stuck,
                                                     {{"x", {1, 0, 1}},
                                                      {"y", {0, 0, 2}},
                                                      {"y", {0, 1, 1}},
                                                      {"y", {1, 0, 1}},
                                                      {"z", {0, 0, 1}}}}))
      << "y has been submitted, and has no number yet";
  worker.OnUnbegun({{"x", {0, 0, 1}}, {{"z", {0, 0, 1}}}});
  worker.OnUnbegun({{"y", {0, 0, 1}}, {{"z", {0, 0, 1}}}});
  EXPECT_EQ(Sent<wire::Unbegun>().size(), 1u) << "it is not stuck there";
  worker.AskAgain();
  EXPECT_TRUE(Told().back().stuck) << "to a coordinator without memory, too";
}

TEST_F(WorkerNamesTest, WhoCanGoOnTakesItBack) {
  ASSERT_TRUE(Submit(1, Op::kSum).ok());
  Declared(7);
  Look();
  Look();
  EXPECT_FALSE(Told().back().stuck);
  worker.SetStuck("x");
  worker.SetStuck("x");
  ASSERT_EQ(Told().size(), 2u) << "it waits only now";
  EXPECT_TRUE(Told().back().stuck);
  worker.SetStuck("");
  ASSERT_EQ(Told().size(), 3u);
  EXPECT_FALSE(Told().back().stuck);
  worker.SetStuck("x");
  ASSERT_TRUE(Submit(2, Op::kSum, 8, 0, "y").ok());
  ASSERT_EQ(Told().size(), 5u) << "a submission shows that it is not";
  EXPECT_FALSE(Told().back().stuck);
  worker.OnUnbegun({{"x", {0, 0, 1}}, {{"z", {0, 0, 1}}}});
  EXPECT_TRUE(Sent<wire::Unbegun>().empty());
}

TEST_F(WorkerNamesTest, WhoHasJoinedIsNotStuck) {
  ASSERT_TRUE(Submit(1, Op::kJoin, 0).ok());
  Declared(7);
  worker.SetStuck("x");
  Look();
  Look();
  ASSERT_EQ(Told().size(), 1u);
  EXPECT_FALSE(Told()[0].stuck);
}

TEST_F(WorkerNamesTest, WhatIsQuickIsNotTold) {
  for (OperationId id = 1; id <= 5; ++id) {
    Use(id, Op::kSum, 7);
    Look();
  }
  EXPECT_TRUE(Told().empty());
  EXPECT_FALSE(worker.NextTick().has_value()) << "nothing is open";
}

}  // namespace
}  // namespace byteps::protocol
