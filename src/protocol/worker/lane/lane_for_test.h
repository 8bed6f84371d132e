// The parts of a lane alone, built as in the lane, with a driver that records their calls.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/protocol/kernel_arithmetic.h"
#include "src/protocol/protocol_for_test.h"
#include "src/protocol/view_parts.h"
#include "src/protocol/worker/lane/lane_context.h"

namespace byteps::protocol {

class RecordingLaneDriver final : public LaneDriver {
 public:
  struct Sent {
    ShardId to = 0;
    wire::DataHeader header;
    std::string bytes;
  };

  void ToFront(FrontMail mail) override { to_front.push_back(std::move(mail)); }
  void SendData(ShardId to, wire::DataFrame frame) override {
    bool push = frame.kind == wire::FrameKind::kPush;
    (push ? pushes : verdicts).push_back({to, frame.header, TextOf(frame.payload)});
    if (!push) order += "verdict ";
  }
  void Send(ShardId to, const wire::Frame& frame) override {
    if (const auto* have = std::get_if<wire::Have>(&frame)) {
      haves.emplace_back(to, have->pieces);
      order += "have ";
    } else if (std::holds_alternative<wire::Resync>(frame)) {
      resyncs.push_back(to);
      order += "resync ";
    } else if (const auto* abort = std::get_if<wire::Abort>(&frame)) {
      aborts.push_back({to, abort->push, abort->why});
    } else if (const auto* ack = std::get_if<wire::Ack>(&frame)) {
      acks.emplace_back(to, ack->count);
    } else if (const auto* set = std::get_if<wire::ProcessSet>(&frame)) {
      order += (set->bitmap.empty() ? "removed " : "set ") + std::to_string(set->number) + " ";
    } else if (const auto* joined = std::get_if<wire::Joined>(&frame)) {
      order += "joined " + std::to_string(joined->number) + " ";
    }
  }
  void Forget(ConstByteSpan memory) override { forgotten.push_back(memory.data()); }

  template <typename Mail>
  std::vector<Mail> Told() const {
    std::vector<Mail> found;
    for (const FrontMail& mail : to_front) {
      if (const Mail* one = std::get_if<Mail>(&mail)) found.push_back(*one);
    }
    return found;
  }

  std::vector<FrontMail> to_front;
  std::vector<Sent> pushes;
  std::vector<Sent> verdicts;
  std::vector<Sent> aborts;
  std::vector<std::pair<ShardId, std::vector<wire::HeldPiece>>> haves;
  std::vector<ShardId> resyncs;
  std::vector<std::pair<ShardId, uint64_t>> acks;
  std::vector<const std::byte*> forgotten;
  std::string order;  // the order in which repeated messages were sent

 private:
  static std::string TextOf(ConstByteSpan bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

// Pieces of kPieceBytes each, one behind the other, in place.
class SpansForTest final : public SpanSource {
 public:
  static constexpr uint32_t kPieceBytes = 4;
  Spans SpansOf(uint32_t number) const override {
    ByteSpan piece(memory + size_t{number} * kPieceBytes, kPieceBytes);
    return {kPieceBytes, 0, piece, 0, piece};
  }
  std::byte* memory = nullptr;
};

// Lane `lane` of `lanes` in slot 0 of a view of two ranks and `shards` shards, and an exchange of
// tensor 7 with a home in each shard for one piece. No shard is connected.
class LaneForTest : public testing::Test {
 protected:
  explicit LaneForTest(uint32_t lane = 0, uint32_t lanes = 1, uint32_t shards = 2) {
    options.lane = lane;
    options.lanes = lanes;
    options.credit.fixed_bytes = 1 << 20;
    view = ViewFor(2, shards);
    spans.memory = memory;
    exchange.serial = 5;
    exchange.name = "w";
    exchange.tensor.id = 7;
    exchange.use = 1;
    exchange.count = shards;
    for (ShardId shard = 0; shard < shards; ++shard) homes.push_back(shard);
    exchange.homes = &homes;
    exchange.spans = &spans;
    std::ranges::copy(std::as_bytes(std::span("aaaabbbbccccdddd", 16)), memory);
  }

  // Returns the context in the state after the view has begun a generation.
  LaneContext& MakeContext() {
    made = std::make_unique<LaneContext>(options, pool, arithmetic, driver);
    made->epoch = made->readable_epoch = view.epoch;
    made->generation = view.generation;
    made->slot = 0;
    made->pieces.SetOwnership(OwnershipOf(view));
    made->links.Begin(homes.size());
    made->receipts.AddView(view.epoch, WorkersOf(view));
    made->send_queue.Begin(1, SpansForTest::kPieceBytes);
    return *made;
  }

  std::byte memory[16];
  SpansForTest spans;
  std::vector<ShardId> homes;
  Exchange exchange;
  wire::View view;
  LaneOptions options;
  KernelArithmetic arithmetic;
  BufferPool pool;
  RecordingLaneDriver driver;
  std::unique_ptr<LaneContext> made;
};

}  // namespace byteps::protocol
