#include "src/machine/upward_lane.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <variant>

namespace byteps::machine {
namespace {

using local::Decision;

RoundKey KeyOf(const protocol::Exchange& exchange) {
  return {exchange.tensor.id, exchange.use, exchange.first_piece};
}

// The bytes of several spans of one piece, which lie behind one another.
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

bool IsAlike(const UpwardFacts::Run& one, UpwardFacts::Run other) {
  other.count = one.count;
  return one == other;
}

}  // namespace

UpwardLane::UpwardLane(local::Window& window, uint32_t ranks, Ferry* ferry, Events events)
    : window_(window),
      rank_(window.rank()),
      rank_count_(ranks),
      ferry_(ferry),
      events_(std::move(events)) {}

void UpwardLane::OnMail(const protocol::LaneMail& mail) {
  std::visit([this](const auto& one) { On(one); }, mail);
}

void UpwardLane::On(const protocol::to_lane::View& mail) {
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
  first_rank_ = UINT32_MAX;
  for (const wire::WorkerInfo& worker : wire::WorkersOfGeneration(view)) {
    ranks.push_back(worker.rank);
    if (worker.slot == mail.slot) first_rank_ = std::min(first_rank_, worker.rank);
  }
  std::ranges::sort(ranks);
  sets_.clear();
  told_homes_.clear();
  sets_[0] = SetOf(ranks);
}

// `ranks`: those that there are, ascending.
UpwardLane::Set UpwardLane::SetOf(const std::vector<uint32_t>& ranks) const {
  Set set;
  for (uint32_t place = 0; place < ranks.size(); ++place) {
    uint32_t rank = ranks[place];
    if (rank < first_rank_ || rank >= first_rank_ + rank_count_) continue;
    set.ranks |= Bit(rank - first_rank_);
    set.places.push_back(place);
  }
  return set;
}

void UpwardLane::On(const protocol::to_lane::AddProcessSet& mail) {
  if (mail.ranks.empty()) return;  // without this rank
  std::vector<uint32_t> ranks = mail.ranks.List();
  sets_[mail.number] = SetOf(ranks);
  events_.say(SetAdded{mail.number, mail.slots.List(), std::move(ranks)});
}

void UpwardLane::On(const protocol::to_lane::RemoveProcessSet& mail) {
  if (sets_.erase(mail.number) != 0) events_.say(SetRemoved{mail.number});
}

void UpwardLane::On(const protocol::to_lane::Joined& mail) {
  if (mail.number != 0) events_.say(JoinedUpward{mail.number});
}

UpwardFacts UpwardLane::FactsOf(const protocol::Exchange& exchange) {
  const Set& set = sets_.at(exchange.tensor.process_set);
  UpwardFacts facts;
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
  // Of a sum all ranks bring and want the same.
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
    UpwardFacts::Run run{1, bytes, push.offset(), push.bytes(), want.offset(), want.bytes()};
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

void UpwardLane::On(const protocol::to_lane::Begin& mail) {
  const protocol::Exchange& exchange = *mail.exchange;
  RoundKey key = KeyOf(exchange);
  open_[key] = {&exchange};
  keys_[exchange.serial] = key;
  BegunUpward begun{key, FactsOf(exchange)};
  if (exchange.count > 0) {
    protocol::Spans first = exchange.spans->SpansOf(exchange.first_piece);
    begun.push_offset = first.push_offset;
    begun.push_bytes = static_cast<uint32_t>(first.push.size());
  }
  events_.say(begun);
}

void UpwardLane::On(const protocol::to_lane::Withdraw& mail) {
  protocol::to_front::Released released{0, mail.exchange->serial, mail.exchange->tensor.id};
  auto key = keys_.find(released.serial);
  if (key != keys_.end()) Forget(open_.find(key->second));
  events_.tell_front(released);
}

void UpwardLane::On(const protocol::to_lane::Abort& mail) {
  auto key = keys_.find(mail.serial);
  if (key != keys_.end()) events_.say(Abort{key->second, mail.why});
}

void UpwardLane::On(const protocol::to_lane::Retire& mail) {
  for (TensorId tensor : mail.tensors) told_homes_.erase(tensor);
  events_.say(Retired{mail.tensors});
}

void UpwardLane::On(const protocol::to_lane::Settle& mail) {
  events_.say(AsksSettled{mail.question});
}

// All of the round's blocks that this rank was named in are over.
void UpwardLane::OnEnded(const Ended& ended, Time now) {
  auto one = open_.find(ended.key);
  if (one == open_.end() || ignores_answers_) return;
  const protocol::Exchange& exchange = *one->second.exchange;
  protocol::to_front::PartDone part;
  part.serial = exchange.serial;
  part.tensor = exchange.tensor.id;
  part.pieces = exchange.count;
  part.status = ended.status;
  part.now = now;
  if (ended.status.ok()) {
    auto receipt = std::make_shared<protocol::SlotSet>();
    for (uint32_t slot : ended.receipt) receipt->Insert(slot);
    part.receipt = std::move(receipt);
    part.mixed = ended.mixed && !exchange.atomic;  // the carrier has tried again
  } else {
    part.failed_piece = exchange.first_piece;
  }
  Forget(one);
  events_.tell_front(std::move(part));
}

// From now on nothing here touches the exchange's memory.
void UpwardLane::Forget(Exchanges::iterator one) {
  for (Taken& taken : taken_) {
    if (taken.open == &one->second) taken.open = nullptr;
  }
  keys_.erase(one->second.exchange->serial);
  open_.erase(one);
}

// Others wait for sums, then for blocks; so this rank fills last.
Result<bool> UpwardLane::Step() {
  if (SumOne() || ReadOne() || FillOne()) return true;
  return TakeUp();
}

bool UpwardLane::SumOne() {
  return std::ranges::any_of(
      taken_, [this](const Taken& taken) { return taken.is_filled && window_.SumShare(taken.at); });
}

bool UpwardLane::ReadOne() {
  for (auto taken = taken_.begin(); taken != taken_.end(); ++taken) {
    if (!taken->is_filled) continue;
    Decision decision = window_.decision(taken->at);
    if (decision == Decision::kOpen) continue;
    const bool is_sum = decision == Decision::kSum;
    if (!taken->spreads() && ferry_ != nullptr) {
      ferry_->Take(taken->at, is_sum, is_sum ? window_.ResultOf(taken->at) : ConstByteSpan());
    } else if (taken->spreads() && is_sum && taken->open != nullptr && !ignores_answers_) {
      Read(*taken);
    }
    window_.Release(taken->at);
    taken_.erase(taken);
    return true;
  }
  return false;
}

void UpwardLane::Read(const Taken& taken) {
  protocol::Spans spans = taken.open->exchange->spans->SpansOf(taken.at.use.piece);
  if (spans.want.empty()) return;
  ConstByteSpan result = window_.ResultOf(taken.at);
  std::memcpy(spans.want.data(), result.data() + spans.want_offset, spans.want.size());
}

bool UpwardLane::FillOne() {
  for (Taken& taken : taken_) {
    if (taken.is_filled || !window_.IsOurs(taken.at)) continue;
    taken.is_filled = true;
    bool brings = Has(taken.at.use.bring, rank_) && window_.decision(taken.at) == Decision::kOpen;
    if (brings) Fill(taken);
    return true;
  }
  return false;
}

void UpwardLane::Fill(Taken& taken) {
  if (taken.spreads()) {
    if (ferry_ == nullptr || !ferry_->Fill(taken.at, window_.Part(taken.at))) {
      (void)window_.Withdraw(taken.at);
    } else {
      window_.Filled(taken.at);
    }
    return;
  }
  // The operation has ended here without it, so it ends in an error everywhere.
  if (taken.open == nullptr) {
    (void)window_.Withdraw(taken.at);
    return;
  }
  protocol::Spans spans = taken.open->exchange->spans->SpansOf(taken.at.use.piece);
  if (!spans.push.empty()) {
    std::memcpy(window_.Part(taken.at).data() + spans.push_offset, spans.push.data(),
                spans.push.size());
  }
  window_.Filled(taken.at);
}

Result<bool> UpwardLane::TakeUp() {
  Result<std::optional<local::AdmittedUse>> next = window_.NextAfter(last_use_);
  if (!next.ok()) return next.status();
  if (!next->has_value()) return false;
  Taken taken;
  taken.at = *next.value();
  last_use_ = taken.at.number;
  auto one = open_.find(KeyOfUpward(taken.at.use));
  if (one != open_.end()) {
    taken.open = &one->second;
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
