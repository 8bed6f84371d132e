#include "src/protocol/control/names/name_desk.h"

#include <utility>

namespace byteps::protocol {
namespace {

// A coordinator numbers tensors in a range of its own, so that no number is used twice. With ten
// new names a second, a range lasts five weeks. A job may restart its coordinator 126 times.
constexpr TensorId kTensorsOfTerm = TensorId{1} << 25;

Declarations::Rank RankOf(const Member& worker) { return {worker.incarnation(), worker.index}; }

}  // namespace

NameDesk::NameDesk(const Surroundings& around, const Roster& roster, JobEnd& job_end)
    : around_(around), roster_(roster), job_end_(job_end), declarations_(*around.options.rules) {
  declarations_.Number(1, kTensorsOfTerm - 1);
}

void NameDesk::Begin(const wire::View& view) {
  std::vector<uint32_t> weights;
  for (const wire::ServerInfo& server : view.servers) {
    weights.insert(weights.end(), server.shard_weights.begin(), server.shard_weights.end());
  }
  Result<plan::PieceAssigner> dealer = plan::PieceAssigner::Create(weights, view.piece_bytes_max);
  if (!dealer.ok()) return job_end_.End(dealer.status());
  auto workers = static_cast<uint32_t>(wire::WorkersOfGeneration(view).size());
  declarations_.Begin(std::move(dealer).value(), workers, view.piece_bytes_max);
}

void NameDesk::Rebuild(const wire::View& view, uint64_t restarts) {
  if (restarts >= UINT32_MAX / kTensorsOfTerm) {
    return job_end_.End(
        {StatusCode::kExhausted, "the coordinator was restarted too often; start the job again"});
  }
  declarations_.Number(static_cast<TensorId>(restarts * kTensorsOfTerm + 1), kTensorsOfTerm - 1);
  rebuilding_ = true;
  for (const wire::WorkerInfo& one : view.workers) {
    if (!one.left) awaited_.insert(one.incarnation);
  }
}

void NameDesk::OnDeclare(const Member& worker, const wire::Declare& declare) {
  Deliver(declarations_.OnDeclare(RankOf(worker), declare));
}

void NameDesk::OnLetGo(const Member& worker, const wire::LetGo& let_go) {
  Deliver(declarations_.OnLetGo(RankOf(worker), let_go));
}

void NameDesk::OnOverdue(const Member& worker, const wire::Overdue& overdue) {
  Deliver(declarations_.OnOverdue(RankOf(worker), overdue));
}

void NameDesk::OnUnbegun(const Member& worker, const wire::Unbegun& answer) {
  if (rebuilding_) return;
  bool more = declarations_.OnUnbegun(RankOf(worker), answer);
  if (!more || judge_at_.has_value()) return;
  judge_at_ = around_.clock.now() + around_.options.judge_after;
}

void NameDesk::DoWhatIsDue() {
  if (!judge_at_.has_value() || around_.clock.now() < *judge_at_) return;
  judge_at_.reset();
  Deliver(declarations_.JudgeStuck());
}

void NameDesk::OnReport(ConnectionId from, const wire::Report& report, bool late) {
  auto parts = unclaimed_.extract(from);
  uint64_t incarnation = report.self.incarnation;
  if (parts.empty() || !(late || awaited_.contains(incarnation))) return;
  told_[incarnation] = {report.committed.generation, std::move(parts.mapped())};
}

void NameDesk::TakeKnown(uint64_t worker, const wire::View& view) {
  const Member* member = roster_.Find(worker);
  if (member == nullptr || awaited_.erase(worker) == 0) return;
  auto told = told_.extract(worker);
  if (!told.empty() && told.mapped().generation == view.generation) {
    for (const wire::Known& part : told.mapped().parts) {
      Deliver(declarations_.OnKnown(RankOf(*member), part));
    }
  }
  FinishRebuilding();
}

void NameDesk::ForgetIf(const std::function<bool(uint64_t)>& gone) {
  std::erase_if(awaited_, gone);
  declarations_.ForgetLost(gone);
  FinishRebuilding();
  if (!rebuilding_) Deliver(declarations_.ForgetUnheld());
}

void NameDesk::FinishRebuilding() {
  if (!rebuilding_ || !awaited_.empty()) return;
  rebuilding_ = false;
  told_.clear();
  Status restored = declarations_.OnAllKnown();
  if (!restored.ok()) return job_end_.End(restored);
  Deliver(declarations_.ForgetUnheld());
  Deliver(declarations_.StillKnown(Declarations::kServers));
}

void NameDesk::BringUpToDate(const Member& member) {
  Deliver(member.role() == Role::kServer ? declarations_.ForServer(member.incarnation())
                                         : declarations_.FailedForWorker(member.incarnation()));
}

void NameDesk::Deliver(const Declarations::Answers& answers) {
  for (const Declarations::Answer& answer : answers) {
    if (answer.to != Declarations::kServers) {
      const Member* member = roster_.Find(answer.to);
      if (member != nullptr) around_.driver.Send(member->connection, answer.message);
      continue;
    }
    for (const auto& [id, member] : roster_.all()) {
      bool server = member.role() == Role::kServer && member.presence == Presence::kIn;
      if (server) around_.driver.Send(id, answer.message);
    }
  }
}

}  // namespace byteps::protocol
