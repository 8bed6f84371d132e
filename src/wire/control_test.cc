#include "src/wire/control.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "src/wire/control_generated.h"

namespace byteps::wire {
namespace {

std::vector<Message> OneOfEach() {
  Join join{Role::kServer, 3,       42, "host-a", "10.0.0.1:99", 2,          500, 17, 4, 2,
            32768,         "0.1.0", 0,  1,        "node-a",      "node-a/0", 4};
  join.more_addresses = {"10.1.0.1:99", "[fd00::1]:98"};
  join.local_sizes = {2, 1};
  join.same_bits = true;
  join.sum_group = 3;
  View view;
  view.epoch = 5;
  view.generation = 2;
  view.began = 4;
  view.piece_bytes_max = 32768;
  view.workers = {{0, 0, 7, "host-a", 100, 0, 1}, {1, 1, 8, "host-b", 101, 0, 1}};
  view.gone = {{2, 2, 6, "host-b", 103, 0, 1}};
  view.servers = {{0, 9, "host-c", "10.0.0.3:4711", 102, 0, {5, 5}, false, 5, {4, 6}}};
  view.servers[0].more_addresses = {"10.1.0.3:4711"};
  view.placed = 4;
  view.same_bits = true;
  view.sum_group = 3;
  View next = view;
  next.epoch = 6;
  next.workers[1].left = true;
  TensorSpec spec{Op::kAverage, DataType::kFloat16, 0, {3, 4}, true};
  spec.codec = 200;
  DeclareFailed failed{"w",       {3, 1, 5, 9},      {77, 78}, StatusCode::kMismatch,
                       "differs", {{"v", {0, 2, 9}}}};
  return {
      join,
      Refused{StatusCode::kRefused, "the job is full"},
      Waiting{"1/2 workers"},
      Propose{2, view, next},
      Promise{2, 6},
      Commit{2, next},
      Query{3},
      Report{join, 2, view, 1, next, 7},
      Known{{{{"w", 3, 1, 77, {1, 2, 3}, 9}, spec, true}}, {failed}},
      Declare{"w", 1, spec, 5, 9},
      Declared{"w", 3, 1, 77, {1, 2, 3}, 9},
      failed,
      Sync{2, 4},
      GoOn{2, 4},
      Leave{false},
      Alive{Account{5,
                    1,
                    80,
                    2,
                    300,
                    {{{"w", {3, 1, 5}}, 77, UseStage::kExchanges, 1200, 800},
                     {{"v", {0, 1, 2}}, UINT32_MAX, UseStage::kNotBegun, 0, 0}},
                    {{3, {0, 1}}},
                    {{77, 4, 900}, {78, 4, 901}},
                    5000000000,
                    {{"w", "cuda:1", true, 65000}, {"v", "cuda:0", false, 1000}}},
            {{"v", {0, 1, 2}}},
            {{{"w", {3, 1, 5}}, "rank 1 sleeps", 700}},
            ServerAccount{1ull << 40, 7, 5000000001, {{"rdma mlx5_0", 3, {0, 2}}, {"tcp", 1, {}}}}},
      Suspect{Role::kServer, 1, 9, Suspicion::kUnreachable, "connection reset", 3},
      JobOver{StatusCode::kPeerLost, "server 1 was lost"},
      Overdue{{{"w", {3, 1, 5}, 77, {{0, 2, 9}}, true}}, {{3, {0, 2}}}},
      Unbegun{{"w", {3, 1, 5, 9}}, {{"v", {0, 2, 9, 8}}}},
      StillKnown{1, 4194305, {77, 78}},
      Rates{6, {{1, 4096, 900, 1000}, {0, 0, 0, 1000}}, 8192, 2000},
      LetGo{{77, 78}},
      Forgotten{{77, 78}, {{"w", 3, 9}}}};
}

TEST(ControlTest, EverySuspicionSurvivesTheWire) {
  for (uint8_t why = 0; why <= static_cast<uint8_t>(Suspicion::kExited); ++why) {
    Message message = Suspect{Role::kWorker, 1, 9, static_cast<Suspicion>(why), "gone", 3};
    Result<Message> decoded = DecodeControl(EncodeControl(message));
    ASSERT_TRUE(decoded.ok()) << int{why};
    EXPECT_EQ(decoded.value(), message) << int{why};
  }
}

TEST(ControlTest, AUseOfALifetimeThatIsOverComesBeforeThoseOfTheNextOne) {
  EXPECT_LT((Use{0, 3, 9, 1}), (Use{0, 0, 1, 2}));
  EXPECT_LT((Use{0, 0, 9, 2}), (Use{0, 1, 1, 2}));
  EXPECT_LT((Use{0, 1, 1, 2}), (Use{0, 1, 2, 2}));
  EXPECT_LT((Use{0, 9, 9, 9}), (Use{1, 0, 1, 1}));
}

// The message has more numbers in the shape than in the placement. The check against false counts
// must not wrap.
TEST(ControlTest, AKnownTensorOfManyDimensionsSurvivesTheWire) {
  TensorSpec spec{Op::kSum, DataType::kFloat32, 0, {1, 2, 3, 4, 5, 6, 7, 8}};
  Message message = Known{{{{"w", 3, 1, 77, {0}}, spec}}, {}};
  Result<Message> decoded = DecodeControl(EncodeControl(message));
  ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
  EXPECT_EQ(decoded.value(), message);
}

TEST(ControlTest, EveryMessageSurvivesTheWire) {
  std::vector<Message> messages = OneOfEach();
  EXPECT_EQ(messages.size(), std::variant_size_v<Message::variant>);
  for (const Message& message : messages) {
    Result<Message> decoded = DecodeControl(EncodeControl(message));
    ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
    EXPECT_EQ(decoded.value(), message) << message.index();
  }
}

TEST(ControlTest, MisalignedBytesDecodeToo) {
  std::vector<std::byte> bytes = EncodeControl(Waiting{"3/4 workers"});
  std::vector<std::byte> shifted(bytes.size() + 1);
  std::copy(bytes.begin(), bytes.end(), shifted.begin() + 1);
  EXPECT_TRUE(DecodeControl(ConstByteSpan(shifted).subspan(1)).ok());
}

// Moves an offset four bytes further, so that structs are misaligned.
TEST(ControlTest, StructsThatAreMisalignedAreReadToo) {
  const std::vector<std::byte> sound = EncodeControl(Rates{6, {{1, 1, 3, 4}, {5, 6, 7, 8}}});
  int shorter = 0;
  for (size_t at = 0; at + 4 <= sound.size(); at += 4) {
    std::vector<std::byte> bytes = sound;
    bytes[at] = static_cast<std::byte>(std::to_integer<int>(bytes[at]) + 4);
    const Result<Message> decoded = DecodeControl(bytes);
    const Rates* rates = decoded.ok() ? std::get_if<Rates>(&decoded.value()) : nullptr;
    if (rates != nullptr && rates->shards.size() == 1) ++shorter;
  }
  EXPECT_EQ(shorter, 1);
}

RC_GTEST_PROP(ControlTest, DamagedBytesAreAMessageOrAnError, ()) {
  std::vector<Message> messages = OneOfEach();
  auto bytes = EncodeControl(messages[*rc::gen::inRange<size_t>(0, messages.size())]);
  size_t flips = *rc::gen::inRange<size_t>(1, 8);
  for (size_t i = 0; i < flips; ++i) {
    size_t at = *rc::gen::inRange<size_t>(0, bytes.size());
    bytes[at] = static_cast<std::byte>(*rc::gen::arbitrary<uint8_t>());
  }
  bytes.resize(*rc::gen::inRange<size_t>(0, bytes.size() + 1));
  Result<Message> decoded = DecodeControl(bytes);
  RC_ASSERT(decoded.ok() || decoded.status().code() == StatusCode::kProtocol);
}

// Ten thousand servers that share one long name have few bytes on the wire.
TEST(ControlTest, AViewDoesNotUnfold) {
  View view;
  view.workers = {{0, 0, 7, std::string(100000, 'h'), 100, 0, 1}};
  ASSERT_TRUE(DecodeControl(EncodeControl(Commit{1, view})).ok());
  view.workers[0].slot = kMembersMax;
  EXPECT_FALSE(DecodeControl(EncodeControl(Commit{1, view})).ok());
  for (size_t gone : {0, 10000}) {
    flatbuffers::FlatBufferBuilder b;
    auto host = b.CreateString(std::string(1000, 'h'));
    auto worker = fb::CreateWorker(b, 0, 0, 7, host);
    using Workers = std::vector<flatbuffers::Offset<fb::Worker>>;
    auto here = b.CreateVector(Workers(10000 - gone, worker));
    auto away = b.CreateVector(Workers(gone, worker));
    auto servers = b.CreateVector(std::vector<flatbuffers::Offset<fb::Server>>());
    auto body = fb::CreateCommit(b, 1, fb::CreateView(b, 1, 1, 1, 0, here, servers, away));
    b.Finish(fb::CreateMessage(b, fb::Body_Commit, body.Union()));
    auto bytes = std::as_bytes(std::span(b.GetBufferPointer(), b.GetSize()));
    EXPECT_EQ(DecodeControl(bytes).status().code(), StatusCode::kProtocol);
  }
}

TEST(ControlTest, AServerHasNoMoreAddressesThanAHostHasInterfaces) {
  Join join;
  join.more_addresses.assign(kMoreAddressesMax, "10.0.0.1:1");
  View view;
  view.servers = {{0, 9, "h", "10.0.0.3:1", 1, 0, {1}}};
  view.servers[0].more_addresses = join.more_addresses;
  ASSERT_TRUE(DecodeControl(EncodeControl(join)).ok());
  ASSERT_TRUE(DecodeControl(EncodeControl(Commit{1, view})).ok());
  join.more_addresses.emplace_back("10.0.0.1:1");
  view.servers[0].more_addresses = join.more_addresses;
  EXPECT_EQ(DecodeControl(EncodeControl(join)).status().code(), StatusCode::kProtocol);
  EXPECT_EQ(DecodeControl(EncodeControl(Commit{1, view})).status().code(), StatusCode::kProtocol);
}

TEST(ControlTest, ProcessesOfOneSlotAreOneContributorAndTheLowestRankCarries) {
  View view;
  view.workers = {{4, 5, 75}, {1, 2, 72}, {4, 3, 73}, {0, 6, 76}, {4, 4, 74}};
  view.gone = {{9, 9, 79}};
  std::vector<Contributor> contributors = ContributorsOf(view);
  ASSERT_EQ(contributors.size(), 3u);
  EXPECT_EQ(contributors[0].slot, 0u);
  EXPECT_EQ(contributors[1].slot, 1u);
  EXPECT_EQ(contributors[2].carrier().incarnation, 73u);
  EXPECT_EQ(contributors[2].processes,
            (std::vector<WorkerInfo>{{4, 3, 73}, {4, 4, 74}, {4, 5, 75}}));
  EXPECT_EQ(ContributorsOf(WorkersOfGeneration(view)).size(), 4u);
  EXPECT_TRUE(ContributorsOf(View()).empty());
}

TEST(ControlTest, AProcessThatNamesNoContributorIsOneByItself) {
  Result<Message> decoded = DecodeControl(EncodeControl(Join{}));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(std::get<Join>(decoded.value()).contributor, "");
  EXPECT_EQ(std::get<Join>(decoded.value()).contributor_size, 1u);
}

}  // namespace
}  // namespace byteps::wire
