#include "src/protocol/worker/exchange/exchanges.h"

#include <algorithm>
#include <utility>

#include "src/wire/round.h"

namespace byteps::protocol {

uint64_t Exchanges::Begin(OperationId operation, const Exchange& exchange) {
  Open& open = open_[++last_serial_];
  open.operation = operation;
  open.exchange = exchange;
  open.exchange.serial = last_serial_;
  open.progress.Begin(lanes_.lanes());
  try {
    lanes_.Begin({&open.exchange});
  } catch (...) {  // no memory was left
    open_.erase(last_serial_);
    throw;
  }
  return last_serial_;
}

void Exchanges::Abort(uint64_t serial, const Status& why) {
  auto found = open_.find(serial);
  if (found == open_.end()) return;
  lanes_.Abort({found->second.exchange.tensor.id, serial, why});
}

std::optional<Exchanges::End> Exchanges::Withdraw(uint64_t serial) {
  auto found = open_.find(serial);
  Open& open = found->second;
  open.withdrawn = true;
  open.released.assign(lanes_.lanes(), false);
  lanes_.Withdraw(open.exchange);
  return EndIfReleased(found);
}

std::optional<Exchanges::End> Exchanges::OnPartDone(const to_front::PartDone& mail) {
  now_ = std::max(now_, mail.now);
  auto found = open_.find(mail.serial);
  if (found == open_.end() || found->second.withdrawn) return std::nullopt;
  Open& open = found->second;
  open.progress.Add(mail);
  if (!open.progress.IsComplete(open.exchange.count)) return std::nullopt;
  if (open.progress.status().ok() && TryAgainForOneReceipt(open)) return std::nullopt;
  End end{open.operation, false, open.progress.status(), open.progress.receipt(),
          open.progress.mixed()};
  open_.erase(found);
  return end;
}

// An atomic tensor has one receipt for all its pieces. A piece that has more members in its receipt
// than all pieces have in common is pushed again, in the next attempt. No member joins meanwhile,
// so this ends.
bool Exchanges::TryAgainForOneReceipt(Open& open) {
  bool again =
      open.exchange.atomic && open.progress.mixed() && open.attempt + 1 < wire::kAttemptsMax;
  if (!again) return false;
  Receipt common = open.progress.receipt();
  open.progress.Begin(lanes_.lanes());
  lanes_.Repeat({&open.exchange, ++open.attempt, std::move(common)});
  return true;
}

std::optional<Exchanges::End> Exchanges::OnReleased(const to_front::Released& mail) {
  auto found = open_.find(mail.serial);
  if (found == open_.end() || !found->second.withdrawn) return std::nullopt;
  found->second.released[mail.lane] = true;
  return EndIfReleased(found);
}

std::optional<Exchanges::End> Exchanges::EndIfReleased(Place place) {
  if (!rules_.MayEnd(place->second.released)) return std::nullopt;
  End end{place->second.operation, true, {}, {}, false};
  open_.erase(place);
  return end;
}

}  // namespace byteps::protocol
