// Front: takes operations on tensors to their end. It knows names, process sets and joins, declares
// names at the coordinator, walks each operation along its path (data_path.h), gives its exchanges
// to the lanes, and completes it exactly once, when no lane touches its memory any more.
//
// No I/O, no clock; one thread calls it. An operation borrows its user's memory from Submit to
// FrontDriver::Complete.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/base/status.h"
#include "src/base/time.h"
#include "src/operations/sizes.h"
#include "src/protocol/arithmetic.h"
#include "src/protocol/codec.h"
#include "src/protocol/worker/exchange/exchanges.h"
#include "src/protocol/worker/exchange/front_rules.h"
#include "src/protocol/worker/exchange/lane_mailing.h"
#include "src/protocol/worker/exchange/mail.h"
#include "src/protocol/worker/exchange/operation.h"
#include "src/protocol/worker/exchange/settling.h"
#include "src/protocol/worker/front/declaring.h"
#include "src/protocol/worker/front/front_driver.h"
#include "src/protocol/worker/front/joins.h"
#include "src/protocol/worker/front/names.h"
#include "src/protocol/worker/front/overdue.h"
#include "src/protocol/worker/front/placed_sets.h"
#include "src/protocol/worker/front/use_states.h"
#include "src/wire/names.h"
#include "src/wire/view.h"

namespace byteps::protocol {

struct FrontOptions {
  uint32_t lanes = 1;
  // An allgather whose result is larger than this ends in an error on every rank.
  uint64_t gathered_bytes_max = operations::kTensorBytesMax;
  Duration overdue_after = milliseconds(500);  // time between two looks for open operations
  IdleTensors idle;                   // empty: sets how long tensors stay that no operation uses
  size_t copy_slice_bytes = 1 << 20;  // longer copies are done in slices
  uint32_t piece_bytes = 0;           // see DealOptions
  const Codecs* codecs = &Codecs::None();  // must outlive the front
  uint64_t first_round = 1;                // tests only
  const FrontRules* rules = &kFrontRules;
};

class Front {
 public:
  Front(const FrontOptions& options, Arithmetic& arithmetic, FrontDriver& driver);
  ~Front();

  // Takes a new view, in which this worker has `slot` and `rank`. A first view without servers
  // makes a job of one: operations end at once. A view that begins another generation resets
  // everything. REQUIRES: no operation is open at a new generation.
  void OnView(const wire::View& view, Slot slot, uint32_t rank);

  // Accepts an operation and completes it exactly once. The name of the operation is taken until
  // then. If this rank alone can see an error, Submit returns the error and accepts nothing. If
  // Submit throws, it has accepted nothing either.
  Status Submit(Operation operation);
  // See PlacedSets. RemoveProcessSet also returns kInvalidArgument if an operation of the set is
  // open.
  Status AddProcessSet(uint32_t number, const std::vector<uint32_t>& ranks);
  Status RemoveProcessSet(uint32_t number);
  // Fixes the place of `name` among names of equal priority, before its first use.
  void Declare(const std::string& name) { alone_ ? void() : declaring_.Reserve(name); }
  // See Overdue. The next Submit also takes this back.
  void SetStuck(const std::string& name) { overdue_.SetStuck(name); }
  void SetDeviceWaits(DeviceWaits waits) { uses_.SetDeviceWaits(std::move(waits)); }
  // Asks the owners to end the operation in an error, on every rank or on none, if it has not
  // ended. The owners' decision ends it. The error gives the reason and the tensor, and names the
  // ranks that are missing.
  void Abort(OperationId id, const TooLate& late);
  // Asks the lanes whether other members still depend on what they hold, because this worker wants
  // to leave. FrontDriver::OnSettled follows when no member depends on it any more. After each
  // later view the front asks again, and OnSettled follows again.
  void Settle();
  // Ends every operation, now and later, with `why`. REQUIRES: no connection to a shard is open.
  void Stop(const Status& why);

  void OnDeclared(const wire::Declared& message);
  void OnDeclareFailed(const wire::DeclareFailed& message);
  void OnForgotten(const wire::Forgotten& all) { lanes_.Forget(declaring_.OnForgotten(all)); }
  void OnUnbegun(const wire::Unbegun& question) { overdue_.OnUnbegun(question); }
  // Known returns what a restarted coordinator must know, in bounded messages. AskAgain repeats the
  // questions.
  std::vector<wire::Known> Known() const;
  void AskAgain();

  void OnMail(FrontMail mail);
  // REQUIRES: now >= NextTick().
  void OnTick(Time now);
  std::optional<Time> NextTick();

  size_t open_operations() const { return open_.size(); }
  const UseStates& uses() const { return uses_; }

 private:
  StageVerdict Enter(Stage stage, Tensor& tensor);
  StageVerdict EnterDeclare(Tensor& tensor);
  StageVerdict EnterLayout(Tensor& tensor);
  StageVerdict EnterPartition(Tensor& tensor);
  StageVerdict EnterCopy(Tensor& tensor);
  StageVerdict EnterExchange(Tensor& tensor);
  StageVerdict Ended(Tensor& tensor, const Task::Trouble& how);
  void Advance(Tensor& tensor);
  void Deliver(Tensor& tensor);

  Status Check(Operation& operation) const;
  Status CheckCodec(const Operation& operation) const;
  void GiveUp(const Status& why);
  void BeginExchange(Tensor& tensor);
  void OnExchangeEnd(const std::optional<Exchanges::End>& end);
  void Fail(Tensor& tensor, const Status& why);
  void FailLifetime(Tensor& tensor);
  void CloseWithdrawn(Tensor& tensor);
  void Close(Tensor& tensor, bool completed);
  std::optional<Time> NextLook();

  void On(const to_front::PartDone& mail) { OnExchangeEnd(exchanges_.OnPartDone(mail)); }
  void On(const to_front::Released& mail) { OnExchangeEnd(exchanges_.OnReleased(mail)); }
  void On(to_front::HandOver& mail);
  void On(const to_front::GivesUp& mail) { GiveUp(mail.why); }
  void On(const to_front::Measured& mail) { driver_.SendControl(mail.rates); }
  void On(const to_front::Settled& mail);
  void BeginGeneration(const wire::View& view);
  void TellLanes(uint32_t number);

  const FrontOptions options_;
  Arithmetic& arithmetic_;
  FrontDriver& driver_;

  bool ready_ = false;  // a view is known
  bool alone_ = false;
  std::optional<Status> stopped_;
  uint32_t generation_ = 0;
  uint32_t rank_ = 0;
  DealOptions deal_options_;

  Names names_;
  PlacedSets sets_;
  Joins joins_;
  UseStates uses_{names_, sets_, joins_};
  Declaring declaring_;
  Overdue overdue_;
  LaneMailing lanes_;
  Exchanges exchanges_;
  Settling settling_;
  Copies copies_;
  std::unordered_map<OperationId, Tensor*> open_;
};

}  // namespace byteps::protocol
