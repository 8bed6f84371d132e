#include "src/machine/member/member_lane.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

namespace byteps::machine {
namespace {

using local::Decision;

// The smallest span that contains several spans of one piece, which lie one behind the other.
class Hull {
 public:
  void Add(uint32_t offset, size_t bytes) {
    if (bytes == 0) return;
    begin_ = end_ == 0 ? offset : std::min(begin_, offset);
    end_ = std::max(end_, offset + static_cast<uint32_t>(bytes));
  }
  uint32_t offset() const { return begin_; }
  uint32_t bytes() const { return end_ - begin_; }

 private:
  uint32_t begin_ = 0;
  uint32_t end_ = 0;
};

bool IsAlike(const MemberFacts::Run& one, MemberFacts::Run other) {
  other.count = one.count;
  return one == other;
}

}  // namespace

MemberLane::MemberLane(local::Window& window, BlockTransfers* transfers, Events events)
    : window_(window),
      rank_(window.rank()),
      transfers_(transfers),
      events_(std::move(events)),
      work_(window, {[this](const local::AdmittedUse& at) { return Find(at); },
                     [this](BlockWork::Taken& taken) { Fill(taken); },
                     [this](const BlockWork::Taken& taken, bool is_sum) { Take(taken, is_sum); }}) {
}

void MemberLane::OnMail(const protocol::LaneMail& mail) {
  std::visit([this](const auto& one) { On(one); }, mail);
}

void MemberLane::On(const protocol::to_lane::View& mail) {
  const wire::View& view = *mail.view;
  bool begins = epoch_ == 0 || view.generation != generation_;
  epoch_ = view.epoch;
  generation_ = view.generation;
  if (!begins) {
    protocol::to_front::HandOver nothing{0, view.epoch, {}};
    nothing.pieces.resize(1);
    return events_.tell_front(std::move(nothing));
  }
  std::vector<uint32_t> ranks;
  const std::vector<wire::WorkerInfo> workers = wire::WorkersOfGeneration(view);
  for (const wire::WorkerInfo& worker : workers) ranks.push_back(worker.rank);
  machine_ranks_.Take(workers, mail.slot);
  std::ranges::sort(ranks);
  sets_.clear();
  told_homes_.clear();
  sets_[0] = SetOf(ranks);
}

// `ranks`: all ranks of the set, ascending.
MemberLane::Set MemberLane::SetOf(const std::vector<uint32_t>& ranks) const {
  Set set;
  for (uint32_t place = 0; place < ranks.size(); ++place) {
    const std::optional<uint32_t> local_rank = machine_ranks_.LocalRankOf(ranks[place]);
    if (!local_rank.has_value()) continue;
    set.ranks |= Bit(*local_rank);
    set.places.push_back(place);
  }
  return set;
}

void MemberLane::On(const protocol::to_lane::AddProcessSet& mail) {
  if (mail.ranks.empty()) return;  // a set without this rank
  std::vector<uint32_t> ranks = mail.ranks.List();
  sets_[mail.number] = SetOf(ranks);
  events_.say(member::SetAdded{mail.number, mail.slots.List(), std::move(ranks)});
}

void MemberLane::On(const protocol::to_lane::RemoveProcessSet& mail) {
  if (sets_.erase(mail.number) != 0) events_.say(member::SetRemoved{mail.number});
}

void MemberLane::On(const protocol::to_lane::Joined& mail) {
  if (mail.number != 0) events_.say(member::Joined{mail.number});
}

MemberFacts MemberLane::FactsOf(const protocol::Exchange& exchange) {
  const Set& set = sets_.at(exchange.tensor.process_set);
  MemberFacts facts;
  facts.name = exchange.name;
  facts.ranks = set.ranks;
  facts.how = exchange.tensor.combine;
  facts.type = exchange.tensor.dtype;
  facts.codec = exchange.tensor.codec;
  facts.process_set = exchange.tensor.process_set;
  facts.root = exchange.root.value_or(kNoRank);
  facts.priority = exchange.priority;
  facts.order = exchange.order;
  facts.atomic = exchange.atomic;
  facts.others_wait = exchange.others_wait;
  // In a sum all ranks bring and want the same.
  const bool alike = exchange.tensor.combine != Combine::kOverlay && !exchange.others_wait;
  const size_t places = alike ? 1 : set.places.size();
  for (uint32_t number = exchange.first_piece; number < exchange.end(); ++number) {
    Hull push;
    Hull want;
    uint32_t bytes = 0;
    for (size_t i = 0; i < places; ++i) {
      protocol::Spans spans = exchange.spans->SpansOfPlace(number, set.places[i]);
      bytes = spans.piece_bytes;
      push.Add(spans.push_offset, spans.push.size());
      want.Add(spans.want_offset, spans.want.size());
    }
    MemberFacts::Run run{1, bytes, push.offset(), push.bytes(), want.offset(), want.bytes()};
    if (facts.pieces.empty() || !IsAlike(facts.pieces.back(), run)) {
      facts.pieces.push_back(run);
    } else {
      ++facts.pieces.back().count;
    }
  }
  size_t& told = told_homes_[exchange.tensor.id];
  if (told < exchange.homes->size()) facts.homes = *exchange.homes;
  told = std::max(told, exchange.homes->size());
  return facts;
}

void MemberLane::On(const protocol::to_lane::Begin& mail) {
  const protocol::Exchange& exchange = *mail.exchange;
  RoundKey key = KeyOf(exchange);
  open_.Begin(exchange);
  member::Begun begun{key, FactsOf(exchange)};
  if (exchange.count > 0) {
    protocol::Spans first = exchange.spans->SpansOf(exchange.first_piece);
    begun.push_offset = first.push_offset;
    begun.push_bytes = static_cast<uint32_t>(first.push.size());
  }
  begun.operations = OperationsOf(exchange);
  if (exchange.no_input != nullptr) begun.no_input = *exchange.no_input;
  events_.say(begun);
}

void MemberLane::On(const protocol::to_lane::Withdraw& mail) {
  if (auto key = open_.KeyOf(mail.exchange->serial); key.has_value()) open_.End(*key);
  events_.tell_front(ReleasedOf(*mail.exchange));
}

void MemberLane::On(const protocol::to_lane::Abort& mail) {
  if (auto key = open_.KeyOf(mail.serial); key.has_value()) events_.say(Abort{*key, mail.why});
}

void MemberLane::On(const protocol::to_lane::Retire& mail) {
  for (TensorId tensor : mail.tensors) told_homes_.erase(tensor);
  events_.say(member::Retired{mail.tensors});
}

void MemberLane::On(const protocol::to_lane::Forget& mail) {
  for (TensorId tensor : mail.tensors) told_homes_.erase(tensor);
  events_.say(member::Forgotten{mail.tensors});
}

void MemberLane::On(const protocol::to_lane::Settle& mail) {
  events_.say(member::AsksSettled{mail.question});
}

// Ends the exchange. All blocks of the round that named this rank are over.
void MemberLane::OnEnded(const member::Ended& ended, Time now) {
  const Round* round = open_.Find(ended.key);
  if (round == nullptr || ignores_answers_) return;
  protocol::to_front::PartDone part = PartOf(*round->exchange, ended.status, now);
  if (ended.status.ok()) {
    auto receipt = std::make_shared<SlotSet>();
    for (uint32_t slot : ended.receipt) receipt->Insert(slot);
    part.receipt = std::move(receipt);
    part.mixed = ended.mixed && !round->exchange->atomic;  // the carrier has tried again
  }
  open_.End(ended.key);
  events_.tell_front(std::move(part));
}

const protocol::Exchange* MemberLane::Find(const local::AdmittedUse& at) {
  const Round* round = open_.Find(KeyOfTransfer(at.use));
  return round == nullptr ? nullptr : round->exchange;
}

void MemberLane::Fill(BlockWork::Taken& taken) {
  const local::AdmittedUse& at = taken.at;
  if (!Has(at.use.bring, rank_) || window_.decision(at) != Decision::kOpen) return;
  if (Spreads(at.use)) {
    if (transfers_ != nullptr && transfers_->Fill(at, window_.Part(at))) return window_.Filled(at);
    (void)window_.Withdraw(at);
  } else if (taken.exchange == nullptr) {
    // The operation has ended early here, so it ends in an error everywhere.
    (void)window_.Withdraw(at);
  } else {
    work_.CopyIn(taken);
  }
}

void MemberLane::Take(const BlockWork::Taken& taken, bool is_sum) {
  const local::AdmittedUse& at = taken.at;
  if (Spreads(at.use)) {
    if (is_sum && taken.exchange != nullptr && !ignores_answers_) work_.CopyOut(taken);
  } else if (transfers_ != nullptr) {
    transfers_->Take(at, is_sum, is_sum ? window_.ResultOf(at) : ConstByteSpan());
  }
}

}  // namespace byteps::machine
