#include "src/machine/window_lane.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>

namespace byteps::machine {
namespace {

using local::Decision;

RoundKey KeyOf(const protocol::Exchange& exchange) {
  return {exchange.tensor.id, exchange.use, exchange.first_piece};
}

RoundKey KeyOf(const local::BlockUse& use) { return {use.tensor, use.round, use.generation}; }

RoundFacts FactsOf(const protocol::Exchange& exchange, RankSet ranks) {
  RoundFacts facts;
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

WindowLane::WindowLane(local::Window& window, uint32_t ranks, Events events)
    : window_(window), rank_(window.rank()), rank_count_(ranks), events_(std::move(events)) {}

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
  keys_[exchange.serial] = key;
  events_.say(Begun{key, FactsOf(exchange, RanksOf(exchange.tensor.process_set))});
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

// What others may lack of this rank lies in blocks that it has not released.
void WindowLane::On(const protocol::to_lane::Settle& mail) {
  events_.tell_front(protocol::to_front::Settled{mail.question});
}

void WindowLane::OnFailed(const Failed& failed, Time now) {
  auto one = open_.find(failed.key);
  if (one != open_.end()) End(one, failed.status, now);
}

// From now on nothing here touches the exchange's memory.
void WindowLane::Forget(Exchanges::iterator one) {
  for (Taken& taken : taken_) {
    if (taken.open == &one->second) taken.open = nullptr;
  }
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
  Forget(one);
  events_.tell_front(std::move(part));
}

const protocol::Receipt& WindowLane::ReceiptOf(RankSet ranks) {
  if (receipt_ == nullptr || receipt_ranks_ != ranks) {
    auto receipt = std::make_shared<protocol::SlotSet>();
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

// Others wait for sums, then for blocks; so this rank fills last.
Result<bool> WindowLane::Step(Time now) {
  if (SumOne() || ReadOne(now) || FillOne()) return true;
  return TakeUp();
}

bool WindowLane::SumOne() {
  return std::ranges::any_of(
      taken_, [this](const Taken& taken) { return taken.is_filled && window_.SumShare(taken.at); });
}

bool WindowLane::ReadOne(Time now) {
  for (auto taken = taken_.begin(); taken != taken_.end(); ++taken) {
    if (!taken->is_filled) continue;
    Decision decision = window_.decision(taken->at);
    if (decision == Decision::kOpen) continue;
    Open* open = taken->open;
    if (open != nullptr && decision == Decision::kSum) {
      Read(*taken);
      ++open->done;
      open->ranks = taken->at.use.ranks;
    } else if (open != nullptr) {
      open->is_broken = true;
    }
    window_.Release(taken->at);
    RoundKey key = KeyOf(taken->at.use);
    taken_.erase(taken);
    if (open != nullptr && open->done == open->exchange->count) {
      End(open_.find(key), Status::Ok(), now);
    }
    return true;
  }
  return false;
}

void WindowLane::Read(const Taken& taken) {
  protocol::Spans spans = taken.open->exchange->spans->SpansOf(taken.at.use.piece);
  if (spans.want.empty()) return;
  ConstByteSpan result = window_.ResultOf(taken.at);
  std::memcpy(spans.want.data(), result.data() + spans.want_offset, spans.want.size());
}

bool WindowLane::FillOne() {
  for (Taken& taken : taken_) {
    if (taken.is_filled || !window_.IsOurs(taken.at)) continue;
    taken.is_filled = true;
    if (taken.open == nullptr) {
      (void)window_.Withdraw(taken.at);
    } else if (Has(taken.at.use.bring, rank_) && window_.decision(taken.at) == Decision::kOpen) {
      Fill(taken);
    }
    // Also where nothing was to be filled: it may be decided already, and of that comes no event.
    return true;
  }
  return false;
}

void WindowLane::Fill(Taken& taken) {
  protocol::Spans spans = taken.open->exchange->spans->SpansOf(taken.at.use.piece);
  if (!spans.push.empty()) {
    std::memcpy(window_.Part(taken.at).data() + spans.push_offset, spans.push.data(),
                spans.push.size());
  }
  window_.Filled(taken.at);
}

Result<bool> WindowLane::TakeUp() {
  Result<std::optional<local::AdmittedUse>> next = window_.NextAfter(last_use_);
  if (!next.ok()) return next.status();
  if (!next->has_value()) return false;
  Taken taken;
  taken.at = *next.value();
  last_use_ = taken.at.number;
  auto one = open_.find(KeyOf(taken.at.use));
  if (one != open_.end()) {
    taken.open = &one->second;
    ++one->second.given;
    protocol::Spans spans = one->second.exchange->spans->SpansOf(taken.at.use.piece);
    if (spans.piece_bytes != taken.at.use.bytes) {
      return Status(StatusCode::kInternal, "the ranks of this machine cut tensor '" +
                                               std::string(one->second.exchange->name) +
                                               "' in different ways: restart the job");
    }
  }
  taken_.push_back(taken);
  return true;
}

}  // namespace byteps::machine
