// Takes verdicts. It says where an answer's payload goes, and decides what counts of the answer
// when the payload is here. Then the piece goes on along its path. One thread at a time.
#pragma once

#include "src/protocol/worker/lane/answer_reader.h"
#include "src/protocol/worker/lane/lane_context.h"
#include "src/protocol/worker/lane/piece_walk.h"

namespace byteps::protocol {

class Verdicts final : public AnswerReader::Target {
 public:
  Verdicts(LaneContext& lane, PieceWalk& walk) : lane_(lane), walk_(walk) {}

  Result<AnswerReader::Place> PlaceFor(ShardId from, const wire::DataHeader& header,
                                       size_t payload_bytes) override;
  void Take(ShardId from, const AnswerReader::Answer& answer, Time now) override;

  // Drops the copies of verdicts that have become stable.
  void ReleaseStable(ShardId from);

  uint64_t repeated() const { return repeated_; }

 private:
  bool Counts(const LanePiece& piece, ShardId from, uint64_t epoch) const;
  static bool LacksRoot(const LaneTensor& tensor, const SlotSet& receipt);
  Result<AnswerReader::Place> PlaceOfVerdict(LaneTensor& tensor, const wire::DataHeader& header,
                                             size_t payload_bytes);
  void TakeVerdict(LaneTensor& tensor, ShardId from, const AnswerReader::Answer& answer);
  void TakeBytes(LaneTensor& tensor, const AnswerReader::Answer& answer, bool stays_unstable);
  void TakeError(LaneTensor& tensor, const AnswerReader::Answer& answer, ConstByteSpan row);
  void Register(ShardId from, LaneTensor& tensor, uint32_t number, uint64_t answer_number);
  void TakeReceipt(const LaneTensor& tensor, const AnswerReader::Answer& answer, Receipt& receipt);
  void AcknowledgeNow();

  LaneContext& lane_;
  PieceWalk& walk_;
  uint64_t repeated_ = 0;  // answers that came although the piece had its verdict
};

}  // namespace byteps::protocol
