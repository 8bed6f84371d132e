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
  void SendAnswer(Slot to, const wire::DataHeader& header, ConstByteSpan payload,
                  BufferRef) override {
    ++answer_count;
    if (!record) return;
    const auto* text = reinterpret_cast<const char*>(payload.data());
    std::string whole(text, payload.size());
    answers.push_back({to, header, whole.substr(header.receipt)});  // without the receipt
  }
  void SendWant(Slot to, const std::vector<wire::PieceRef>& pieces) override {
    wants.emplace_back(to, pieces);
  }
  void SendStable(Slot to, const wire::Progress& told) override {
    stable.emplace_back(to, told.count);
  }

  bool record = true;
  uint64_t answer_count = 0;
  std::vector<SentAnswer> answers;
  std::vector<std::pair<Slot, std::vector<wire::PieceRef>>> wants;
  std::vector<std::pair<Slot, uint64_t>> stable;
};

}  // namespace byteps::protocol
