// A driver that records what a shard asks for.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/protocol/protocol_for_test.h"
#include "src/protocol/shard/shard.h"

namespace byteps::protocol {

// Returns the error in the answer. REQUIRES: the answer is an error.
inline Status ErrorIn(const SentAnswer& answer) {
  uint64_t round = answer.header.ref.round;
  auto row = wire::ErrorRow::Decode(std::as_bytes(std::span(answer.bytes)), round);
  return row.ok() ? *row.value().Of(round) : row.status();
}

class RecordingShardDriver final : public ShardDriver {
 public:
  void SendData(Slot to, wire::DataFrame frame) override {
    ++answer_count;
    if (!record) return;
    const auto* text = reinterpret_cast<const char*>(frame.payload.data());
    std::string whole(text, frame.payload.size());
    answers.push_back({to, frame.header, whole.substr(frame.header.receipt)});  // no receipt
  }
  void Send(Slot to, const wire::Frame& frame) override {
    if (const auto* want = std::get_if<wire::Want>(&frame)) wants.emplace_back(to, want->pieces);
    if (const auto* told = std::get_if<wire::Stable>(&frame)) stable.emplace_back(to, told->count);
  }

  bool record = true;
  uint64_t answer_count = 0;
  std::vector<SentAnswer> answers;
  std::vector<std::pair<Slot, std::vector<wire::PieceRef>>> wants;
  std::vector<std::pair<Slot, uint64_t>> stable;
};

}  // namespace byteps::protocol
