// Tests of frames that a correct worker never sends, and of the limits.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "src/protocol/shard/shard_fixture_for_test.h"

namespace byteps::protocol {
namespace {

TEST_F(ShardTest, WhatNoCorrectWorkerSendsIsRefused) {
  wire::DataHeader good = Header(7, 1, 4, Combine::kSum);
  auto refused = [&](Slot from, wire::DataHeader header, size_t bytes) {
    return !Begin(from, header, bytes).ok();
  };
  EXPECT_TRUE(refused(2, good, 4)) << "not in the view";
  wire::DataHeader bad = good;
  bad.generation = 2;
  EXPECT_TRUE(refused(0, bad, 4));
  bad = good;
  bad.piece_bytes = bad.want_bytes = UINT32_MAX;
  EXPECT_TRUE(refused(0, bad, UINT32_MAX)) << "4 GiB would be allocated";
  bad = good;
  bad.status = StatusCode::kInternal;
  EXPECT_TRUE(refused(0, bad, 4));
  bad = good;
  bad.dtype = DataType::kFloat64;
  EXPECT_TRUE(refused(0, bad, 4)) << "half an element";
  EXPECT_TRUE(refused(0, good, 3)) << "a part of the piece";
  bad = Header(7, 1, 4);
  bad.codec = 1;
  EXPECT_TRUE(refused(0, bad, 1000)) << "an overlay longer than the piece";
  EXPECT_TRUE(Push(0, good, "abcd"));
  bad = good;
  bad.dtype = DataType::kInt8;
  EXPECT_TRUE(refused(1, bad, 4)) << "another dtype";
}

// If the shard cut the member off, it would come back with the same push, without end. The
// operation fails instead.
TEST_F(ShardTest, ARoundTooManyEndsInAnErrorOnEveryRank) {
  for (TensorId tensor = 0; tensor < 4; ++tensor) EXPECT_TRUE(Sum(0, tensor, 1, "\x01"));
  EXPECT_TRUE(driver.answers.empty());
  EXPECT_TRUE(Sum(0, 9, 1, "\x01"));
  EXPECT_TRUE(Sum(1, 9, 1, "\x01"));
  EXPECT_EQ(shard.open_rounds(), 4u);
  ASSERT_EQ(driver.answers.size(), 2u);
  for (const SentAnswer& answer : driver.answers) {
    EXPECT_EQ(answer.header.status, StatusCode::kExhausted);
    EXPECT_EQ(ErrorIn(answer).message().substr(0, 47),
              "more than 4 pieces wait for other ranks on shar");
  }
  EXPECT_TRUE(Sum(1, 0, 1, "\x01"));  // there is room again
  EXPECT_TRUE(Sum(0, 9, 2, "\x01"));
  EXPECT_TRUE(Sum(1, 9, 2, "\x01"));
  EXPECT_EQ(driver.answers.back().bytes, "\x02");
}

TEST_F(ShardTest, OpenRoundsAreBounded) {
  for (TensorId tensor = 0; tensor < 9; ++tensor) {
    for (Slot slot : {0u, 1u}) EXPECT_TRUE(Sum(slot, tensor, 1, "\x01"));
  }
  // Worker 1 may lack the earlier sums, so no error can be decided.
  for (TensorId tensor = 0; tensor < 8; ++tensor) EXPECT_TRUE(Sum(0, tensor, 2, "\x01"));
  EXPECT_EQ(shard.open_rounds(), 8u);
  EXPECT_EQ(Begin(0, Header(8, 2, 1, Combine::kSum), 1).status().code(), StatusCode::kExhausted);
  Say(shard, 1, wire::Ack{9, 1}, now);
  EXPECT_EQ(shard.open_rounds(), 4u);
}

// If a push finds no memory, its sender and all others are told so. The operation ends, and the
// server goes on.
TEST(ShardMemoryTest, AnOperationThatFindsNoMemoryEndsInAnErrorOnEveryRank) {
  KernelArithmetic arithmetic;
  RecordingShardDriver driver;
  BufferPool pool(HeapMemory(), 3000);  // an error needs a little, too
  Shard shard{ShardOptions{}, pool, arithmetic, driver};
  shard.OnView(ViewFor(2, 1), 0);
  auto push = [&](Slot from, TensorId tensor, uint32_t bytes, uint64_t acknowledged) {
    wire::DataHeader header;
    header.ref = {tensor, 0, 1};
    header.epoch = 1;
    header.generation = 1;
    header.combine = Combine::kSum;
    header.dtype = DataType::kUint8;
    header.piece_bytes = header.want_bytes = bytes;
    header.count = acknowledged;
    Result<ByteSpan> place =
        shard.OnDataHeader(from, wire::FrameKind::kPush, header, bytes, kStart);
    ASSERT_TRUE(place.ok()) << place.status().ToString();
    ASSERT_EQ(place.value().size(), bytes);
    std::fill(place.value().begin(), place.value().end(), std::byte{1});
    shard.OnPayload(from);
  };
  push(0, 1, 1024, 0);
  push(0, 2, 1024, 0);
  EXPECT_TRUE(driver.answers.empty());
  push(1, 2, 1024, 0);
  ASSERT_EQ(driver.answers.size(), 2u);
  for (const SentAnswer& answer : driver.answers) {
    EXPECT_EQ(answer.header.ref.tensor, 2u);
    EXPECT_EQ(answer.header.status, StatusCode::kExhausted);
    EXPECT_NE(ErrorIn(answer).message().find("no memory for 1024 bytes"), std::string::npos);
  }
  push(1, 1, 1024, 1);
  ASSERT_EQ(driver.answers.size(), 4u) << "what it had room for goes on";
  EXPECT_EQ(driver.answers.back().header.status, StatusCode::kOk);
  for (Slot slot : {0u, 1u}) Say(shard, slot, wire::Ack{2, 1});
  EXPECT_EQ(pool.bytes_in_use(), 0u);
}

// Frames come without end for a view that never comes.
TEST(ShardHeldTest, WhatWaitsForAViewIsBounded) {
  const uint64_t never = uint64_t{1} << 60;
  wire::DataHeader header;
  header.ref = {1, 0, 1};
  header.epoch = never;
  header.generation = 1;
  header.dtype = DataType::kUint8;
  header.piece_bytes = header.want_bytes = 1000;
  auto send = [&](wire::FrameKind kind, Shard& shard) {
    Result<ByteSpan> place = shard.OnDataHeader(0, kind, header, 1000, kStart);
    if (place.ok()) shard.OnPayload(0);
    return place.status();
  };
  std::vector<std::function<Status(Shard&)>> ways = {
      [&](Shard& shard) { return send(wire::FrameKind::kPush, shard); },
      [&](Shard& shard) { return send(wire::FrameKind::kVerdict, shard); },
  };
  const std::vector<wire::Frame> others = {
      wire::Ack{1, never},         wire::Have{never, {{{1, 0, 1}, 0}}},
      wire::Resync{never},         wire::Joined{1, never, {}},
      wire::Abort{header, "late"}, wire::ProcessSet{1, never, {std::byte{1}}},
  };
  for (const wire::Frame& frame : others) {
    ways.emplace_back([&](Shard& shard) { return shard.OnFrame(0, frame, kStart); });
  }
  for (size_t way = 0; way < ways.size(); ++way) {
    BufferPool pool;
    KernelArithmetic arithmetic;
    RecordingShardDriver driver;
    Shard shard{ShardOptions{.postponed_bytes_max = 50000}, pool, arithmetic, driver};
    shard.OnView(ViewFor(2, 1), 0);
    Status said;
    int frames = 0;
    for (; said.ok() && frames < 1000; ++frames) said = ways[way](shard);
    EXPECT_EQ(said.code(), StatusCode::kExhausted) << "way " << way;
    EXPECT_GT(frames, 10) << "way " << way;
    EXPECT_TRUE(shard.OnFrame(1, wire::Resync{never}, kStart).ok()) << "another connection";
    shard.OnLost(0);
    EXPECT_EQ(pool.bytes_in_use(), 0u);
    EXPECT_TRUE(shard.OnFrame(0, wire::Resync{never}, kStart).ok()) << "a new connection";
  }
}

TEST_F(ShardTest, FramesForWorkersAreRefused) {
  for (const wire::Frame& frame : {wire::Frame(wire::Want()), wire::Frame(wire::Stable{1, 1})}) {
    EXPECT_EQ(shard.OnFrame(0, frame, now).code(), StatusCode::kProtocol);
  }
}

}  // namespace
}  // namespace byteps::protocol
