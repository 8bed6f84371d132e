// A shard with its workers, for tests that push.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "src/protocol/kernel_arithmetic.h"
#include "src/protocol/shard/shard.h"
#include "src/protocol/shard/shard_for_test.h"

namespace byteps::protocol {

// Lets the shard take a frame that it must not refuse.
inline void Say(Shard& shard, Slot from, const wire::Frame& frame, Time now = kStart) {
  Status taken = shard.OnFrame(from, frame, now);
  EXPECT_TRUE(taken.ok()) << taken.message();
}

class ShardTest : public testing::Test {
 protected:
  explicit ShardTest(uint32_t workers = 2) : view(ViewFor(workers, 1)) { shard.OnView(view, 0); }

  // Makes the next view, in which a worker has left in order. The others must not go on without it.
  void Leave(Slot slot) {
    ++view.epoch;
    view.workers[slot].left = true;
    shard.OnView(view, 0);
  }

  static wire::DataHeader Header(TensorId tensor, uint64_t round, size_t bytes,
                                 Combine combine = Combine::kOverlay) {
    wire::DataHeader header;
    header.ref = {tensor, 0, round};
    header.epoch = 1;
    header.generation = 1;
    header.combine = combine;
    header.dtype = DataType::kUint8;
    header.piece_bytes = static_cast<uint32_t>(bytes);
    header.want_bytes = header.piece_bytes;
    return header;
  }

  Result<ByteSpan> Begin(Slot from, const wire::DataHeader& header, size_t bytes) {
    return shard.OnDataHeader(from, wire::FrameKind::kPush, header, bytes, now);
  }

  // Pushes a whole contribution. Returns true if the shard took it.
  bool Push(Slot from, const wire::DataHeader& header, const std::string& text) {
    Result<ByteSpan> place = Begin(from, header, text.size());
    if (!place.ok()) return false;
    arithmetic.Copy(place.value().data(), reinterpret_cast<const std::byte*>(text.data()),
                    text.size());
    shard.OnPayload(from);
    return true;
  }

  bool Sum(Slot from, TensorId tensor, uint64_t round, const std::string& text,
           uint64_t acknowledged = 0) {
    wire::DataHeader header = Header(tensor, round, text.size(), Combine::kSum);
    header.count = acknowledged;
    return Push(from, header, text);
  }

  BufferPool pool;
  KernelArithmetic arithmetic;
  RecordingShardDriver driver;
  wire::View view;
  Shard shard{ShardOptions{.open_rounds_max = 4, .failing_rounds_max = 4}, pool, arithmetic,
              driver};
  Time now = kStart;
};

}  // namespace byteps::protocol
