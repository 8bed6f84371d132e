// Walks pieces along their path: takes an exchange's pieces in, lets them set out when they have
// credit, enters their stages, pushes them, waits for their verdict, and tells the front when this
// lane's part has ended. One thread at a time.
#pragma once

#include <memory>
#include <optional>

#include "src/protocol/worker/lane/answer_reader.h"
#include "src/protocol/worker/lane/keeper.h"
#include "src/protocol/worker/lane/lane_context.h"
#include "src/protocol/worker/lane/piece_path.h"
#include "src/protocol/worker/lane/pushes.h"

namespace byteps::protocol {

class PieceWalk final {
 public:
  PieceWalk(LaneContext& lane, Keeper& keeper, AnswerReader& reader, Pushes& pushes);

  void Begin(const Exchange& exchange);
  void Repeat(const to_lane::Repeat& repeat);
  void Withdraw(const Exchange& exchange);
  void Abort(const to_lane::Abort& abort);
  void Resume(const PieceTicket& ticket, StageVerdict how, const Status& error);
  // What stages keep of the tensor, or of all tensors, goes. None of their pieces is on its path.
  void Retire(TensorId tensor) { paths_->Retire(tensor); }
  void BeginGeneration() { paths_->BeginGeneration(); }
  void AbandonAll() { paths_->AbandonAll(); }

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
  Keeper& keeper_;
  AnswerReader& reader_;
  Pushes& pushes_;
  const std::unique_ptr<PiecePaths> paths_;
  uint64_t last_entry_;  // of a piece into a stage
};

}  // namespace byteps::protocol
