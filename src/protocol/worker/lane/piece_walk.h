// Walks pieces along their path: takes in an exchange's pieces, lets them set out when they have
// credit, enters their stages, pushes them, and waits for their verdicts. Tells the front when this
// lane's part has ended. One thread at a time.
#pragma once

#include <memory>
#include <optional>

#include "src/protocol/worker/lane/answer_reader.h"
#include "src/protocol/worker/lane/lane_context.h"
#include "src/protocol/worker/lane/piece_path.h"
#include "src/protocol/worker/lane/piece_sender.h"

namespace byteps::protocol {

class PieceWalk final {
 public:
  PieceWalk(LaneContext& lane, AnswerReader& reader, PieceSender& sender);

  void Begin(const Exchange& exchange);
  void Repeat(const to_lane::Repeat& repeat);
  void Withdraw(const Exchange& exchange);
  void Abort(const to_lane::Abort& abort);
  void Resume(const PieceTicket& ticket, StageVerdict how, const Status& error);
  // Drops what the stages keep of the tensor, or of all tensors. REQUIRES: none of their pieces is
  // on its path.
  void Retire(TensorId tensor) { paths_->Retire(tensor); }
  void BeginGeneration() { paths_->BeginGeneration(); }
  void AbandonAll() { paths_->AbandonAll(); }

  // Want lets the piece pass the credit, because its owner waits for it. If the piece has not
  // begun, the lane remembers the want. ApplyEarlyWants repeats the remembered wants of a tensor
  // whose pieces may have begun now.
  void Want(const wire::PieceRef& ref);
  void ApplyEarlyWants(TensorId tensor);
  // Starts every queued piece that has credit.
  void SetOut();

  // Pushes the piece again, to its present owner, if it waits for its verdict.
  void PushAgain(LaneTensor& tensor, uint32_t number);
  // Ends all access to the piece's memory by frames to and from its old owner, because the piece
  // has another owner, or the same owner anew.
  void StopTouching(LaneTensor& tensor, uint32_t number);
  // Walks the rest of the path, because the piece's verdict is here.
  void GoOn(LaneTensor& tensor, uint32_t number);

  // Lets the piece go to another lane. Nothing here touches its memory any more, and the report of
  // this lane's part leaves the piece out.
  MovedPiece LetGo(LaneTensor& tensor, uint32_t number);
  // Takes in a piece from another lane. It waits for its turn, or goes on where it was.
  void TakeIn(const MovedPiece& moved);

 private:
  void Open(LaneTensor& tensor, const Exchange& exchange);
  void Queue(LaneTensor& tensor, uint32_t number);
  void QueueFor(LaneTensor& tensor, uint32_t number, uint64_t round, size_t at);
  bool MarkWanted(LaneTensor& tensor, const wire::PieceRef& ref);
  void Walk(LaneTensor& tensor, uint32_t number);
  StageVerdict Enter(PieceStage& stage, LaneTensor& tensor, uint32_t number, Status& error);
  void Abandon(LaneTensor& tensor, uint32_t number);
  void FailPiece(LaneTensor& tensor, uint32_t number, const Status& why);
  void AskForError(LaneTensor& tensor, uint32_t number, const Status& why);
  void Detach(LaneTensor& tensor, uint32_t number);
  void PieceDone(LaneTensor& tensor, uint32_t number);
  void EndPart(LaneTensor& tensor);

  LaneContext& lane_;
  AnswerReader& reader_;
  PieceSender& sender_;
  const std::unique_ptr<PiecePaths> paths_;
  uint64_t last_entry_;  // number of the last entry of a piece into a stage
};

}  // namespace byteps::protocol
