// Tests of a stage that keeps something of each piece from round to round, as error feedback does.
// The stage counts once in each round, wherever the piece goes and however often it is pushed.
#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "src/protocol/worker/lane/lane_for_test.h"
#include "src/protocol/worker/lane/piece_walk.h"
#include "src/protocol/worker/started_worker_for_test.h"

namespace byteps::protocol {
namespace {

// Adds to each pushed byte the number of rounds that the piece has passed before.
class CountingPaths final : public PiecePaths, private PieceStage {
 public:
  const PiecePath& PathOf(const Exchange&) override { return path_; }
  void Retire(TensorId tensor) override {
    std::erase_if(rounds_, [tensor](const auto& one) { return one.first.first == tensor; });
  }
  void BeginGeneration() override { rounds_.clear(); }
  std::vector<std::byte> LetGo(TensorId tensor, uint32_t number) override {
    auto node = rounds_.extract({tensor, number});
    return node.empty() ? std::vector<std::byte>() : std::vector<std::byte>{node.mapped()};
  }
  void TakeIn(TensorId tensor, uint32_t number, std::vector<std::byte> kept) override {
    rounds_[{tensor, number}] = kept.at(0);
  }

 private:
  StageVerdict Enter(PieceInHand& piece) override {
    const int passed = Pass(rounds_[{piece.ticket.tensor, piece.ticket.number}]);
    ByteSpan made = piece.MakeOutput(piece.input->size());
    for (size_t i = 0; i < made.size(); ++i) {
      made[i] = std::byte(std::to_integer<int>((*piece.input)[i]) + passed);
    }
    return StageVerdict::kDone;
  }
  static int Pass(std::byte& rounds) {
    const int passed = std::to_integer<int>(rounds);
    rounds = std::byte(passed + 1);
    return passed;
  }

  std::map<std::pair<TensorId, uint32_t>, std::byte> rounds_;
  const PiecePath path_{{this}, {}};
};

// A worker with two lanes, which have a server each.
class ResidualsTest : public StartedWorker {
 protected:
  ResidualsTest() {
    WorkerOptions options;
    options.lanes = 2;
    options.credit.fixed_bytes = 1 << 20;
    options.paths = [](const StageTools&) { return std::make_unique<CountingPaths>(); };
    worker.emplace(options, pool, kernels, driver);
    view = ViewFor(2, 2);
    view.servers.push_back(view.servers[0]);
    for (uint32_t i = 0; i < 2; ++i) {
      view.servers[i].index = view.servers[i].first_shard = i;
      view.servers[i].shard_weights = {1};
    }
    Connect();
  }
  void Connect() {
    worker->OnView(view, 0);
    for (ShardId shard : {0U, 1U}) worker->OnShardUp(shard);
    answered.assign(2, 0);
  }
  void Begin(OperationId id) {
    driver.pushes.clear();
    Operation operation = Make(id, "w", wire::Op::kSum, kPieces * 4096);
    operation.input = reinterpret_cast<const std::byte*>(input.data());
    operation.output = reinterpret_cast<std::byte*>(output.data());
    ASSERT_TRUE(worker->Submit(std::move(operation)).ok());
  }
  // Returns the first byte of the last push of each piece.
  std::string Pushed() const {
    std::string bytes(kPieces, '-');
    for (const SentPush& push : driver.pushes) {
      bytes[push.header.ref.piece] = static_cast<char>(push.payload[0]);
    }
    return bytes;
  }
  // Lets the present owners answer the pieces.
  void AnswerAll(OperationId id) {
    std::map<uint32_t, SentPush> last;
    for (const SentPush& push : driver.pushes) last[push.header.ref.piece] = push;
    for (const auto& [number, push] : last) EXPECT_TRUE(Answer(push, std::string(4096, 's')));
    EXPECT_TRUE(driver.outcomes[id].status.ok());
  }

  static constexpr int64_t kPieces = 4;
  std::string input = std::string(kPieces * 4096, 'a');
  std::string output = input;
};

TEST_F(ResidualsTest, CountOnceARoundAlsoWhenAServerIsLost) {
  Begin(1);
  Declared("w", 7);
  EXPECT_EQ(Pushed(), "aaaa");
  AnswerAll(1);
  Begin(2);
  EXPECT_EQ(Pushed(), "bbbb");
  const size_t pushes = driver.pushes.size();
  worker->OnShardDown(1);
  ++view.epoch;
  view.servers[1].alive = false;
  view.servers[1].since = view.epoch;
  worker->OnView(view, 0);
  EXPECT_GT(driver.pushes.size(), pushes) << "the pieces of the lost server are pushed again";
  EXPECT_EQ(Pushed(), "bbbb");
  AnswerAll(2);
  Begin(3);
  EXPECT_EQ(Pushed(), "cccc") << "what was kept has moved to the other lane";
}

TEST_F(ResidualsTest, GoWithTheTensorAndWithTheGeneration) {
  Begin(1);
  Declared("w", 7);
  AnswerAll(1);
  Begin(2);
  worker->OnDeclareFailed({"w", {0, 0, 2}, {7}, StatusCode::kMismatch, "they disagree", {}});
  EXPECT_EQ(driver.outcomes[2].status.code(), StatusCode::kMismatch);
  Begin(3);
  Declared("w", 7, 1);
  EXPECT_EQ(Pushed(), "aaaa");
  AnswerAll(3);
  ++view.epoch;
  view.generation = 2;
  for (ShardId shard : {0U, 1U}) worker->OnShardDown(shard);
  Connect();
  Begin(4);
  Declared("w", 7);
  EXPECT_EQ(Pushed(), "aaaa");
}

class RepeatedResidualsTest : public LaneForTest {};

TEST_F(RepeatedResidualsTest, CountOnceForAllAttemptsOfARound) {
  options.paths = [](const StageTools&) { return std::make_unique<CountingPaths>(); };
  exchange.atomic = true;
  LaneContext& lane = MakeContext();
  for (ShardId shard = 0; shard < homes.size(); ++shard) lane.links.OnUp(shard);
  AnswerReader reader(pool, arithmetic);
  PieceSender sender(lane);
  PieceWalk walk(lane, reader, sender);
  for (exchange.use = 1; exchange.use < 3; ++exchange.use) {
    driver.pushes.clear();
    walk.Begin(exchange);
    LaneTensor& tensor = *lane.pieces.Find(7);
    auto common = std::make_shared<SlotSet>();
    common->Insert(0);
    auto decide = [&](uint32_t number, const Receipt& receipt) {
      LanePiece& piece = tensor.pieces[number];
      piece.held.round = piece.round;
      piece.held.receipt = receipt;
      tensor.part.TakeBytes();
      lane.send_queue.Answered(piece.spans, Time());
      walk.GoOn(tensor, number);
    };
    decide(0, WorkersOf(view));
    decide(1, common);
    walk.Repeat({&exchange, 1, common});
    ASSERT_EQ(driver.pushes.size(), 3U);
    EXPECT_EQ(driver.pushes[2].bytes, exchange.use == 1 ? "aaaa" : "bbbb");
    decide(0, common);
  }
}

}  // namespace
}  // namespace byteps::protocol
