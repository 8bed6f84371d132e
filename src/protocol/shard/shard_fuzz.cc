// Fuzz target: a shard among members that send any header that the wire accepts, with payloads that
// are cut off, lost connections, acks, leavers, tensors that are dropped, and ticks, in any order.
// The target writes every place that the shard names, and reads every answer.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>

#include "src/protocol/codec_for_test.h"
#include "src/protocol/kernel_arithmetic.h"
#include "src/protocol/shard/shard_for_test.h"

namespace byteps::protocol {
namespace {

constexpr uint32_t kWorkers = 3;

// Reads its numbers from the fuzzer's bytes. Returns zeros when they end.
class Numbers {
 public:
  explicit Numbers(ConstByteSpan bytes) : bytes_(bytes) {}
  bool empty() const { return bytes_.empty(); }
  uint8_t Next() {
    if (bytes_.empty()) return 0;
    auto value = static_cast<uint8_t>(bytes_[0]);
    bytes_ = bytes_.subspan(1);
    return value;
  }

 private:
  ConstByteSpan bytes_;
};

wire::View TwoServers(wire::View view) {
  view.servers.push_back(view.servers[0]);
  view.servers[1].index = view.servers[1].first_shard = 1;
  return view;
}

class Play {
 public:
  explicit Play(ConstByteSpan bytes) : numbers_(bytes) { shard_.OnView(view_, 0); }

  void Run() {
    while (!numbers_.empty()) Step();
    // The shard must hold nothing for frames whose end will not come.
    for (Slot slot = 0; slot < kWorkers; ++slot) shard_.OnLost(slot);
    ++view_.epoch;
    view_.began = view_.epoch;
    ++view_.generation;
    view_.gone.clear();
    shard_.OnView(view_, 0);
    if (shard_.open_rounds() != 0 || pool_.bytes_in_use() != 0) std::abort();
  }

 private:
  void Forget(uint8_t what) {
    if (what % 8 == 0) shard_.Retire({numbers_.Next() % 4U}, numbers_.Next() % 4U);
    if (what % 8 == 2) shard_.OnForgotten({numbers_.Next() % 4U});
    if (what % 8 == 1) shard_.OnStillKnown({what / 64U, 3, {numbers_.Next() % 4U}});
  }

  void Step() {
    uint8_t what = numbers_.Next();
    Slot slot = what / 16 % (kWorkers + 1);
    switch (what % 16) {
      default: return Push(slot);
      case 10: return Say(slot, wire::Ack{numbers_.Next(), numbers_.Next() % 4U});
      case 11: receiving_.erase(slot); return shard_.OnLost(slot);
      case 12:
        if (numbers_.Next() % 8 == 0) ChangeView(slot);
        return;
      case 13: return Forget(numbers_.Next());
      case 14: return Tell(slot);
      case 15: break;
    }
    now_ += milliseconds(numbers_.Next() * 8);
    std::optional<Time> next = shard_.NextTick();
    if (next.has_value() && *next <= now_) shard_.OnTick(now_);
  }

  // Makes a view in which a worker leaves or is lost, or a shard dies or comes back.
  void ChangeView(Slot slot) {
    ++view_.epoch;
    uint8_t how = numbers_.Next();
    if (how % 3 == 0) {
      view_.servers[1].alive = !view_.servers[1].alive;
      view_.servers[1].since = view_.epoch;
    } else if (slot < view_.workers.size() && how % 3 == 1) {
      view_.workers[slot].left = true;
    } else if (view_.workers.size() > 1) {
      receiving_.erase(view_.workers.back().slot);
      view_.gone.push_back(view_.workers.back());
      view_.workers.pop_back();
    }
    shard_.OnView(view_, 0);
  }

  void Tell(Slot slot) {
    uint64_t epoch = numbers_.Next() % 4U + 1;
    wire::PieceRef ref{numbers_.Next() % 4U, 0, 1 + numbers_.Next() % 4U};
    switch (numbers_.Next() % 5) {
      case 0: return Say(slot, wire::Have{epoch, {{ref, numbers_.Next() % 2U}}});
      case 1: return Say(slot, wire::Resync{epoch});
      case 2: return Say(slot, wire::Joined{1 + numbers_.Next() % 2U, epoch, {}});
      case 3: {
        auto bits = static_cast<std::byte>(numbers_.Next());
        size_t bytes = bits == std::byte{0} ? 0 : 1;
        return Say(slot, wire::ProcessSet{numbers_.Next() % 4U, epoch,
                                          std::vector<std::byte>(bytes, bits)});
      }
      default: break;
    }
    wire::DataHeader push;
    push.ref = ref;
    push.epoch = epoch;
    push.generation = 1;
    push.status = StatusCode::kDeadlineExceeded;
    Say(slot, wire::Abort{push, "too late"});
  }

  void Say(Slot slot, wire::Frame frame) {
    static_cast<void>(shard_.OnFrame(slot, std::move(frame), now_));
  }

  struct Incoming {
    ByteSpan place;
    bool error = false;
    uint32_t receipt = 0;
  };

  // Fills in the payload. For an error it is a row that a worker could send, or any bytes.
  void Fill(const Incoming& incoming) {
    for (std::byte& b : incoming.place) b = std::byte{1};
    if (!incoming.error) return;
    uint8_t what = numbers_.Next();
    size_t skip = std::min<size_t>(incoming.receipt, incoming.place.size());
    ByteSpan bytes = incoming.place.subspan(skip);
    if (what % 2 == 0 || bytes.size() < 64) {
      for (std::byte& b : bytes) b = static_cast<std::byte>(numbers_.Next());
      return;
    }
    wire::ErrorRow row;
    row.Add(what / 2 % 4U, {StatusCode::kPeerLost, "first"});
    row.Add(4 + what / 8 % 2U, {StatusCode::kExhausted, std::string(bytes.size() - 37, 'x')});
    std::vector<std::byte> encoded = row.Encode(5);
    std::copy(encoded.begin(), encoded.end(), bytes.begin());
  }

  // Sends a header, or the end of the payload that a header announced.
  void Push(Slot slot) {
    auto found = receiving_.find(slot);
    if (found != receiving_.end()) {
      Fill(found->second);
      receiving_.erase(found);
      return shard_.OnPayload(slot);
    }
    wire::DataHeader header;
    uint8_t bits = numbers_.Next();
    header.ref = {bits % 4U, bits / 4 % 2U, 1 + numbers_.Next() % 4U};
    header.generation = 1;
    header.epoch = 1 + bits % 3U;
    header.home = bits / 16 % 2U;
    header.combine = static_cast<Combine>(bits / 8 % kCombineCount);
    header.dtype = static_cast<DataType>(numbers_.Next() % kDataTypeCount);
    header.count = numbers_.Next() % 16;
    size_t payload = size_t{numbers_.Next()} * 4;
    header.piece_bytes = header.want_bytes = static_cast<uint32_t>(payload);
    if (bits >= 128) {
      header.piece_bytes = numbers_.Next() * 8U;
      header.offset = numbers_.Next();
      header.want_offset = numbers_.Next();
      header.want_bytes = numbers_.Next() * 4U;
    }
    uint8_t kind = numbers_.Next();
    bool verdict = kind % 4 == 0;
    if (kind % 16 == 4) header.receipt = 1;  // a bitmap in front of the verdict
    if (kind % 4 == 1) header.process_set = kind / 32;
    if (kind % 16 == 8) header.want_offset = header.want_bytes = 0;
    if (kind % 16 == 12) header.status = StatusCode::kPeerLost;
    if (kind >= 240) header.codec = CodecsForTest::kBfloat16;
    if (kind >= 248) header.want_bytes = header.piece_bytes = static_cast<uint32_t>(payload * 2);
    header.encoded_bytes =
        static_cast<uint32_t>(payload - std::min<size_t>(header.receipt, payload));
    std::byte wire_bytes[wire::kDataHeaderBytesMax];
    ConstByteSpan encoded(wire_bytes, wire::EncodeDataHeader(header, wire_bytes));
    auto frame = verdict ? wire::FrameKind::kVerdict : wire::FrameKind::kPush;
    auto decoded = wire::DecodeDataHeader(frame, encoded, payload);
    if (!decoded.ok()) return;
    Result<ByteSpan> place = shard_.OnDataHeader(slot, frame, decoded.value(), payload, now_);
    if (place.ok()) {
      if (place->size() != payload) std::abort();
      bool error = decoded->status != StatusCode::kOk;
      receiving_[slot] = {place.value(), error, decoded->receipt};
    } else if (receiving_.erase(slot) == 0) {
      shard_.OnLost(slot);
    }
  }

  Numbers numbers_;
  BufferPool pool_;
  KernelArithmetic arithmetic_;
  RecordingShardDriver driver_;
  wire::View view_ = TwoServers(ViewFor(kWorkers, 1));
  CodecsForTest codecs_;
  Shard shard_{ShardOptions{.codecs = &codecs_}, pool_, arithmetic_, driver_};
  std::map<Slot, Incoming> receiving_;
  Time now_{};
};

}  // namespace
}  // namespace byteps::protocol

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  byteps::protocol::Play(std::as_bytes(std::span(data, size))).Run();
  return 0;
}
