#include "src/runtime/worker/front_loop.h"

#include <optional>
#include <variant>

#include "src/runtime/loop_thread.h"

namespace byteps::runtime {
namespace {

// The loop never blocks; it may have ended.
constexpr Duration kLoopLimit = seconds(10);

}  // namespace

FrontLoop::FrontLoop(transport::Loop& loop, const protocol::FrontOptions& options,
                     Duration operation_limit, Events events)
    : loop_(loop),
      events_(std::move(events)),
      shut_down_(StatusCode::kShutdown, "the session was shut down"),
      operations_(
          loop, operation_limit,
          {[this] { Take(); },
           [this](const std::vector<protocol::OperationId>& late) { AbortLateOnes(late); }}),
      front_(options, arithmetic_, *this),
      accountant_(front_.uses(), operations_) {}

// Inside the loop nothing is offered: `done` of one operation may submit the next one.
void FrontLoop::Submit(protocol::Operation operation, Engine::Done done) {
  if (events_.offer == nullptr || loop_.InLoop()) {
    return operations_.Submit(std::move(operation), std::move(done));
  }
  events_.offer([&] { operations_.Submit(std::move(operation), std::move(done)); });
}

void FrontLoop::Declare(const std::string& name) {
  loop_.Post([this, name] { front_.Declare(name); });
}

void FrontLoop::SetStuck(const std::string& name) {
  loop_.Post([this, name] {
    Take();
    front_.SetStuck(name);
  });
}

void FrontLoop::SetDeviceWaits(protocol::DeviceWaits waits) {
  loop_.Post(
      [this, waits = std::move(waits)]() mutable { front_.SetDeviceWaits(std::move(waits)); });
}

Status FrontLoop::AddProcessSet(uint32_t number, const std::vector<uint32_t>& ranks) {
  return OnLoop([this, number, ranks] { return front_.AddProcessSet(number, ranks); });
}

Status FrontLoop::RemoveProcessSet(uint32_t number) {
  return OnLoop([this, number] { return front_.RemoveProcessSet(number); });
}

// Takes what was submitted before, and then does the work.
Status FrontLoop::OnLoop(std::function<Status()> work) {
  if (auto refusal = operations_.refusal(); refusal.has_value()) return *refusal;
  return AskLoop(loop_, kLoopLimit, [this, work = std::move(work)] {
    Take();
    Status done = work();
    events_.after();
    return done;
  });
}

void FrontLoop::OnView(const wire::View& view, Slot slot, uint32_t rank) {
  rank_ = rank;
  front_.OnView(view, slot, rank);
}

void FrontLoop::OnControl(const wire::Message& message) {
  if (const auto* declared = std::get_if<wire::Declared>(&message)) {
    front_.OnDeclared(*declared);
  } else if (const auto* failed = std::get_if<wire::DeclareFailed>(&message)) {
    front_.OnDeclareFailed(*failed);
  } else if (const auto* forgotten = std::get_if<wire::Forgotten>(&message)) {
    front_.OnForgotten(*forgotten);
  } else if (const auto* question = std::get_if<wire::Unbegun>(&message)) {
    front_.OnUnbegun(*question);
  } else if (const auto* alive = std::get_if<wire::Alive>(&message)) {
    accountant_.Hear(*alive);
  }
}

void FrontLoop::Take() {
  while (std::optional<protocol::Operation> next = operations_.Next()) {
    protocol::OperationId id = next->id;
    protocol::Outcome refused;
    refused.status = front_.Submit(std::move(*next));
    if (!refused.status.ok()) Complete(id, std::move(refused));
  }
  events_.after();
}

// Asked again and again until those that decide have decided: connections break, pieces wait for
// credit, and all pieces of a machine may have blocks just now.
void FrontLoop::AbortLateOnes(const std::vector<protocol::OperationId>& late) {
  if (leaves_ || !events_.may_abort()) return;
  for (const auto& [id, why] : accountant_.Judge(rank_, late)) front_.Abort(id, why);
  events_.after();
}

void FrontLoop::Complete(protocol::OperationId id, protocol::Outcome outcome) {
  if (leaves_ && !outcome.status.ok()) outcome.status = shut_down_;
  if (events_.is_lent != nullptr && events_.is_lent()) {
    ends_.emplace_back(id, std::move(outcome));
  } else {
    operations_.Complete(id, std::move(outcome));
  }
}

void FrontLoop::TellEnds() {
  while (!ends_.empty()) {
    auto [id, outcome] = std::move(ends_.front());
    ends_.pop_front();
    operations_.Complete(id, std::move(outcome));
  }
}

}  // namespace byteps::runtime
