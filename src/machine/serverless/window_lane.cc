#include "src/machine/serverless/window_lane.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <variant>

#include "src/machine/room/exchange_words.h"

namespace byteps::machine {
namespace {

using local::Decision;

RoundKey KeyOf(const local::BlockUse& use) { return {use.tensor, use.round, use.generation}; }

LocalFacts FactsOf(const protocol::Exchange& exchange, RankSet ranks) {
  LocalFacts facts;
  facts.ranks = ranks;
  facts.how = exchange.tensor.combine;
  facts.type = exchange.tensor.dtype;
  facts.root = exchange.root.value_or(kNoRank);
  facts.priority = exchange.priority;
  facts.order = exchange.order;
  for (uint32_t number = exchange.first_piece; number < exchange.end(); ++number) {
    uint32_t bytes = exchange.spans->SpansOf(number).piece_bytes;
    if (facts.pieces.empty() || facts.pieces.back().bytes != bytes) {
      facts.pieces.push_back({0, bytes});
    }
    ++facts.pieces.back().count;
  }
  return facts;
}

}  // namespace

WindowLane::WindowLane(local::Window& window, uint32_t ranks, const SmallMemory& small,
                       Events events)
    : window_(window),
      rank_(window.rank()),
      rank_count_(ranks),
      small_(small),
      events_(std::move(events)),
      places_(small.places()),
      work_(window, {[this](const local::AdmittedUse& at) { return Find(at); },
                     [this](BlockWork::Taken& taken) { Fill(taken); },
                     [this](const BlockWork::Taken& taken, bool is_sum) { Take(taken, is_sum); }}) {
}

void WindowLane::OnMail(const protocol::LaneMail& mail) {
  std::visit([this](const auto& one) { On(one); }, mail);
}

RankSet WindowLane::RanksOf(uint32_t set) const {
  if (auto found = sets_.find(set); found != sets_.end()) return found->second;
  return FirstRanks(rank_count_);
}

// Slots are ranks here.
void WindowLane::On(const protocol::to_lane::AddProcessSet& mail) {
  RankSet ranks = 0;
  for (Slot slot : mail.slots.List()) ranks |= Bit(slot);
  sets_[mail.number] = ranks;
}

void WindowLane::On(const protocol::to_lane::Joined& mail) {
  if (mail.number != 0) events_.say(Joined());
}

void WindowLane::On(const protocol::to_lane::Begin& mail) {
  const protocol::Exchange& exchange = *mail.exchange;
  RoundKey key = KeyOf(exchange);
  Open& open = open_[key];
  open = Open();
  open.exchange = &exchange;
  open.part = PutSmall(exchange);
  keys_[exchange.serial] = key;
  events_.say(Begun{key, FactsOf(exchange, RanksOf(exchange.tensor.process_set)),
                    OperationsOf(exchange), open.part});
}

// Puts the rank's bytes into a place. If there is no place, the round takes a block.
SmallPart WindowLane::PutSmall(const protocol::Exchange& exchange) {
  if (exchange.count != 1) return {};
  const protocol::Spans spans = exchange.spans->SpansOf(exchange.first_piece);
  if (spans.piece_bytes > kSmallBytesMax) return {};
  const std::optional<uint32_t> place = places_.Take();
  if (!place.has_value()) return {};
  if (!spans.push.empty()) {
    std::memcpy(small_.At(rank_, *place) + spans.push_offset, spans.push.data(), spans.push.size());
  }
  return {*place, static_cast<uint32_t>(spans.push_offset),
          static_cast<uint32_t>(spans.push.size())};
}

void WindowLane::On(const protocol::to_lane::Withdraw& mail) {
  protocol::to_front::Released released{0, mail.exchange->serial, mail.exchange->tensor.id};
  auto key = keys_.find(released.serial);
  if (key != keys_.end()) Forget(open_.find(key->second));
  events_.tell_front(released);
}

void WindowLane::On(const protocol::to_lane::Abort& mail) {
  auto key = keys_.find(mail.serial);
  if (key != keys_.end()) events_.say(Abort{key->second, mail.why});
}

// Answers at once: the bytes that others may lack of this rank lie in blocks that it has not
// released.
void WindowLane::On(const protocol::to_lane::Settle& mail) {
  events_.tell_front(protocol::to_front::Settled{mail.question});
}

void WindowLane::OnFailed(const Failed& failed, Time now) {
  auto one = open_.find(failed.key);
  if (one != open_.end()) End(one, failed.status, now);
}

Status WindowLane::OnCombined(const Combined& combined, Time now) {
  auto one = open_.find(combined.key);
  if (one == open_.end()) return Status::Ok();
  Open& open = one->second;
  const protocol::Spans spans = open.exchange->spans->SpansOf(open.exchange->first_piece);
  if (open.part.place == kNoPlace) {
    return {StatusCode::kProtocol,
            "the carrier of this machine has combined a part that this rank "
            "did not bring: restart the job"};
  }
  if (!spans.want.empty()) {
    const std::byte* result = small_.At(rank_, open.part.place);
    std::memcpy(spans.want.data(), result + spans.want_offset, spans.want.size());
  }
  open.ranks = combined.ranks;
  End(one, Status::Ok(), now);
  return Status::Ok();
}

// Lets go of the exchange: nothing here touches its memory from now on.
void WindowLane::Forget(Exchanges::iterator one, bool join_is_over) {
  if (one->second.part.place != kNoPlace) places_.GiveBack(one->second.part.place);
  if (events_.ended != nullptr) events_.ended(one->first, join_is_over);
  work_.Forget(*one->second.exchange);
  keys_.erase(one->second.exchange->serial);
  open_.erase(one);
}

void WindowLane::End(Exchanges::iterator one, const Status& how, Time now) {
  const protocol::Exchange& exchange = *one->second.exchange;
  protocol::to_front::PartDone part;
  part.serial = exchange.serial;
  part.tensor = exchange.tensor.id;
  part.pieces = exchange.count;
  if (how.ok()) {
    part.receipt = ReceiptOf(one->second.ranks);
  } else {
    part.failed_piece = exchange.first_piece;
  }
  part.status = how;
  part.now = now;
  Forget(one, how.ok() && exchange.tensor.combine == Combine::kLast);
  events_.tell_front(std::move(part));
}

const Receipt& WindowLane::ReceiptOf(RankSet ranks) {
  if (receipt_ == nullptr || receipt_ranks_ != ranks) {
    auto receipt = std::make_shared<SlotSet>();
    for (uint32_t rank = 0; rank < rank_count_; ++rank) {
      if (Has(ranks, rank)) receipt->Insert(rank);
    }
    receipt_ = std::move(receipt);
    receipt_ranks_ = ranks;
  }
  return receipt_;
}

bool WindowLane::HasWhole() const {
  return std::ranges::any_of(open_, [](const auto& one) {
    const Open& open = one.second;
    return open.given == open.exchange->count && !open.is_broken;
  });
}

Result<bool> WindowLane::Step(Time now) {
  now_ = now;
  return work_.Step();
}

const protocol::Exchange* WindowLane::Find(const local::AdmittedUse& at) {
  auto one = open_.find(KeyOf(at.use));
  if (one == open_.end()) return nullptr;
  ++one->second.given;
  return one->second.exchange;
}

void WindowLane::Fill(BlockWork::Taken& taken) {
  if (taken.exchange == nullptr) {
    (void)window_.Withdraw(taken.at);
  } else if (Has(taken.at.use.bring, rank_) && window_.decision(taken.at) == Decision::kOpen) {
    work_.CopyIn(taken);
  }
}

void WindowLane::Take(const BlockWork::Taken& taken, bool is_sum) {
  if (taken.exchange == nullptr) return;
  auto one = open_.find(KeyOf(taken.at.use));
  Open& open = one->second;
  if (!is_sum) {
    open.is_broken = true;
    return;
  }
  work_.CopyOut(taken);
  open.ranks = taken.at.use.ranks;
  if (++open.done == open.exchange->count) End(one, Status::Ok(), now_);
}

}  // namespace byteps::machine
