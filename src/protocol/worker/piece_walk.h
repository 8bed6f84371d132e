// Walks pieces along their path: takes an exchange's pieces in, lets them set out when they have
// credit, enters their stages, and tells the front when this lane's part has ended. It is itself
// the stage exchange: push to the owner, wait for the verdict. One thread at a time.
#pragma once

#include "src/protocol/worker/answer_reader.h"
#include "src/protocol/worker/codec_stages.h"
#include "src/protocol/worker/keeper.h"
#include "src/protocol/worker/lane_context.h"
#include "src/protocol/worker/pushes.h"

namespace byteps::protocol {

class PieceWalk final : private PieceStage {
 public:
  PieceWalk(LaneContext& lane, Keeper& keeper, AnswerReader& reader, Pushes& pushes)
      : lane_(lane),
        keeper_(keeper),
        reader_(reader),
        pushes_(pushes),
        encode_(*lane.options.codecs, lane.pool),
        decode_(*lane.options.codecs) {}

  void Begin(const Exchange& exchange);
  void Repeat(const to_lane::Repeat& repeat);
  void Withdraw(const Exchange& exchange);
  void Abort(const to_lane::Abort& abort);
  void Resume(const PieceTicket& ticket, StageVerdict how, const Status& error);

  // The owner waits for a piece. Of those that had not begun then: it may have begun now.
  void Want(const wire::PieceRef& ref);
  void ApplyEarlyWants(TensorId tensor);
  // What has credit sets out.
  void SetOut();

  // Pushes it again to the owner that it has now, if it waits for its verdict.
  void PushAgain(LaneTensor& tensor, uint32_t number);
  // It has another owner, or the same one anew: nothing that was sent to, or comes from, the one
  // before touches its memory any more.
  void StopTouching(LaneTensor& tensor, uint32_t number);
  // Its verdict is here: the rest of the path.
  void GoOn(LaneTensor& tensor, uint32_t number);

  // The piece goes to another lane: nothing here touches its memory any more, and its part of the
  // exchange is told without it.
  MovedPiece LetGo(LaneTensor& tensor, uint32_t number);
  // A piece comes from another lane: it waits for its turn, or goes on where it was.
  void TakeIn(const MovedPiece& moved);

 private:
  StageVerdict Enter(PieceInHand& piece) override;
  PieceStage* self() { return this; }
  LaneTensor& TensorOf(const TensorFacts& facts);
  PiecePath PathOf(const TensorFacts& facts);
  void Open(LaneTensor& tensor, const Exchange& exchange);
  void Queue(LaneTensor& tensor, uint32_t number);
  void QueueFor(LaneTensor& tensor, uint32_t number, uint64_t round);
  bool MarkWanted(LaneTensor& tensor, const wire::PieceRef& ref);
  void Walk(LaneTensor& tensor, uint32_t number);
  void FailPiece(LaneTensor& tensor, uint32_t number, const Status& why);
  void AskForError(LaneTensor& tensor, uint32_t number, const std::string& why);
  void Detach(LaneTensor& tensor, uint32_t number);
  void PieceDone(LaneTensor& tensor, uint32_t number);
  void EndPart(LaneTensor& tensor);

  LaneContext& lane_;
  Keeper& keeper_;
  AnswerReader& reader_;
  Pushes& pushes_;
  EncodeStage encode_;
  DecodeStage decode_;
};

}  // namespace byteps::protocol
