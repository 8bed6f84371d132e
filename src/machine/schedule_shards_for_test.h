// The other parts of a job in which one machine is the only member, under a random schedule
// (schedule_for_test.h): the shards, and the coordinator as far as names and leaves go.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/slot_set.h"
#include "src/machine/member/block_transfers.h"
#include "src/machine/schedule_ops_for_test.h"
#include "src/plan/piece_assigner.h"
#include "src/protocol/control/names/declarations.h"
#include "src/protocol/worker/exchange/exchange.h"
#include "src/protocol/worker/exchange/mail.h"

namespace byteps::machine {

// Does the work of a lane for the carrier. What the ranks reduce has another number added to it in
// the answer, so that it differs from what is pushed; other pushed bytes are the answer. An error
// that is asked for when all pieces are answered comes too late. Nothing of a forgotten tensor is
// answered. The schedule takes the steps one by one, in any order.
class ScheduledShards {
 public:
  using Tell = std::function<void(protocol::FrontMail)>;
  // `check` gets what was reduced.
  using Check = std::function<void(std::string_view name, std::span<const float> reduced)>;
  static constexpr float kAdded = 0.5F;
  ScheduledShards(BlockTransfers& transfers, Tell tell, Check check)
      : transfers_(transfers), tell_(std::move(tell)), check_(std::move(check)) {}

  void OnMail(const protocol::LaneMail& mail) {
    if (const auto* begin = std::get_if<protocol::to_lane::Begin>(&mail)) {
      open_[begin->exchange->serial] = {begin->exchange, 0, 0};
      if (forgotten_.contains(begin->exchange->tensor.id)) return;
      for (uint32_t i = 0; i < begin->exchange->count; ++i) {
        const uint32_t number = begin->exchange->first_piece + i;
        steps_.emplace_back([this, serial = begin->exchange->serial, number] {
          Enter(serial, number, BlockTransfers::Way::kCollect);
        });
      }
    } else if (const auto* abort = std::get_if<protocol::to_lane::Abort>(&mail)) {
      steps_.emplace_back([this, one = *abort] { Abort(one); });
    } else if (const auto* withdraw = std::get_if<protocol::to_lane::Withdraw>(&mail)) {
      LetGo(withdraw->exchange->serial);
      tell_(protocol::to_front::Released{0, withdraw->exchange->serial,
                                         withdraw->exchange->tensor.id});
    } else if (const auto* view = std::get_if<protocol::to_lane::View>(&mail)) {
      protocol::to_front::HandOver nothing{0, view->view->epoch, {}};
      nothing.pieces.resize(1);
      tell_(std::move(nothing));
    } else if (const auto* settle = std::get_if<protocol::to_lane::Settle>(&mail)) {
      tell_(protocol::to_front::Settled{settle->question});
    }
  }
  void Forget(const std::vector<TensorId>& tensors) {
    forgotten_.insert(tensors.begin(), tensors.end());
    for (const auto& [serial, open] : open_) {
      if (IsForgotten(open)) Stop(serial);
    }
  }
  uint64_t too_late() const { return too_late_; }
  // Returns whether no exchange is open, but those of forgotten tensors: the carrier hears that a
  // tensor is forgotten only if one of its ranks knew the tensor.
  bool IsIdle() const {
    const auto is_forgotten = [this](const auto& one) { return IsForgotten(one.second); };
    return std::ranges::all_of(open_, is_forgotten) && stages_.empty();
  }
  // Takes one step; `pick` chooses it by number. False: there is no step.
  bool Step(const std::function<uint64_t(uint64_t)>& pick) {
    if (steps_.empty()) return false;
    const auto at = steps_.begin() + static_cast<ptrdiff_t>(pick(steps_.size()));
    const std::function<void()> step = std::move(*at);
    steps_.erase(at);
    step();
    return true;
  }

 private:
  struct Open {
    const protocol::Exchange* exchange = nullptr;
    uint32_t answered = 0;  // pieces
    uint32_t done = 0;
  };
  struct InStage {
    uint64_t serial = 0;
    protocol::PieceTicket ticket;
    BlockTransfers::Way way = BlockTransfers::Way::kCollect;
  };

  bool IsForgotten(const Open& open) const { return forgotten_.contains(open.exchange->tensor.id); }
  void Enter(uint64_t serial, uint32_t number, BlockTransfers::Way way) {
    auto open = open_.find(serial);
    if (open == open_.end() || IsForgotten(open->second)) return;
    const protocol::Exchange& exchange = *open->second.exchange;
    const protocol::Spans spans = exchange.spans->SpansOf(number);
    std::vector<std::byte>& bytes = bytes_[{serial, number}];
    bytes.resize(spans.piece_bytes);
    const bool collects = way == BlockTransfers::Way::kCollect;
    BlockTransfers::Piece piece;
    piece.way = way;
    piece.owner = this;
    piece.ticket = {exchange.tensor.id, number, exchange.use, ++entries_};
    piece.key = {exchange.tensor.id, exchange.use, exchange.first_piece};
    piece.piece_bytes = spans.piece_bytes;
    piece.offset = static_cast<uint32_t>(collects ? spans.push_offset : spans.want_offset);
    const ByteSpan whole(bytes);
    if (collects) piece.to = whole.subspan(spans.push_offset, spans.push.size());
    if (!collects) piece.from = whole.subspan(spans.want_offset, spans.want.size());
    piece.resume = [this](const protocol::PieceTicket& ticket, protocol::StageVerdict how,
                          const Status& why) {
      steps_.emplace_back([this, entry = ticket.entry, how, why] { Resume(entry, how, why); });
    };
    stages_[entries_] = {serial, piece.ticket, way};
    const bool has_answer = collects || !piece.from.empty();
    if (has_answer && transfers_.Begin(piece)) return;
    steps_.emplace_back(
        [this, entry = entries_] { Resume(entry, protocol::StageVerdict::kDone, {}); });
  }
  void Resume(uint64_t entry, protocol::StageVerdict how, const Status& why) {
    auto found = stages_.find(entry);
    if (found == stages_.end()) return;
    const InStage stage = found->second;
    stages_.erase(found);
    if (how == protocol::StageVerdict::kFailed) return Fail(stage.serial, why);
    Open& open = open_.at(stage.serial);
    if (stage.way == BlockTransfers::Way::kCollect) {
      ++open.answered;
      Answer(*open.exchange, bytes_.at({stage.serial, stage.ticket.number}));
      return Enter(stage.serial, stage.ticket.number, BlockTransfers::Way::kSpread);
    }
    if (++open.done < open.exchange->count) return;
    protocol::to_front::PartDone part = PartOf(*open.exchange);
    auto receipt = std::make_shared<SlotSet>();
    receipt->Insert(0);
    part.receipt = std::move(receipt);
    LetGo(stage.serial);
    tell_(part);
  }
  void Answer(const protocol::Exchange& exchange, std::vector<std::byte>& bytes) const {
    const protocol::TensorFacts& tensor = exchange.tensor;
    const bool adds = tensor.combine == Combine::kSum || tensor.combine == Combine::kMin;
    if (!adds || tensor.dtype != DataType::kFloat32) return;
    const std::span<float> floats(reinterpret_cast<float*>(bytes.data()),
                                  bytes.size() / sizeof(float));
    check_(exchange.name, floats);
    for (float& one : floats) one += kAdded;
  }
  void Abort(const protocol::to_lane::Abort& abort) {
    auto open = open_.find(abort.serial);
    if (open == open_.end() || IsForgotten(open->second)) return;
    if (open->second.answered < open->second.exchange->count) return Fail(abort.serial, abort.why);
    ++too_late_;
  }
  void Fail(uint64_t serial, const Status& why) {
    auto open = open_.find(serial);
    if (open == open_.end()) return;
    protocol::to_front::PartDone part = PartOf(*open->second.exchange);
    part.failed_piece = open->second.exchange->first_piece;
    part.status = why;
    LetGo(serial);
    tell_(part);
  }
  static protocol::to_front::PartDone PartOf(const protocol::Exchange& exchange) {
    protocol::to_front::PartDone part;
    part.serial = exchange.serial;
    part.tensor = exchange.tensor.id;
    part.pieces = exchange.count;
    return part;
  }
  void LetGo(uint64_t serial) {
    Stop(serial);
    open_.erase(serial);
  }
  void Stop(uint64_t serial) {
    for (auto& [entry, stage] : stages_) {
      if (stage.serial == serial) transfers_.CallOff(stage.ticket);
    }
    std::erase_if(stages_, [&](const auto& one) { return one.second.serial == serial; });
    std::erase_if(bytes_, [&](const auto& one) { return one.first.first == serial; });
  }

  BlockTransfers& transfers_;
  const Tell tell_;
  const Check check_;
  std::map<uint64_t, Open> open_;
  std::map<uint64_t, InStage> stages_;  // by entry
  std::map<std::pair<uint64_t, uint32_t>, std::vector<std::byte>> bytes_;
  std::set<TensorId> forgotten_;
  std::vector<std::function<void()>> steps_;
  uint64_t entries_ = 0;
  uint64_t too_late_ = 0;
};

// Says to the ranks what names stand for, and which rank has left. Messages of one rank, and
// messages to it, stay in their order.
class ScheduledCoordinator {
 public:
  struct Events {
    std::function<void(uint32_t rank, const wire::Message& message)> say;
    std::function<void(uint32_t rank)> leaves;
    std::function<void(const std::vector<TensorId>& tensors)> forget;  // to the shards
  };
  ScheduledCoordinator(uint32_t ranks, Events events) : events_(std::move(events)), heard_(ranks) {
    constexpr uint32_t kWeights[] = {1};
    names_.Number(1, 1 << 20);
    names_.Begin(plan::PieceAssigner::Create(kWeights, kScheduledBytes).value(), ranks,
                 kScheduledBytes);
  }

  void Hear(uint32_t rank, const wire::Message& message) { heard_[rank].push_back(message); }
  // Takes one message; `pick` chooses its rank by number. False: there is no message.
  bool Step(const std::function<uint64_t(uint64_t)>& pick) {
    std::vector<uint32_t> ranks;
    for (uint32_t rank = 0; rank < heard_.size(); ++rank) {
      if (!heard_[rank].empty()) ranks.push_back(rank);
    }
    if (ranks.empty()) return false;
    const uint32_t rank = ranks[pick(ranks.size())];
    // It may be away when a rank leaves, which does not wait for long.
    const bool leaves = std::holds_alternative<wire::Leave>(heard_[rank].front());
    if (leaves && pick(10) != 0) return true;
    const wire::Message message = std::move(heard_[rank].front());
    heard_[rank].pop_front();
    Take({rank + 1, rank}, message);
    return true;
  }

 private:
  void Take(const protocol::Declarations::Rank& rank, const wire::Message& message) {
    if (const auto* declare = std::get_if<wire::Declare>(&message)) {
      Answer(names_.OnDeclare(rank, *declare));
    } else if (const auto* let_go = std::get_if<wire::LetGo>(&message)) {
      Answer(names_.OnLetGo(rank, *let_go));
    } else if (std::holds_alternative<wire::Leave>(message)) {
      events_.leaves(rank.number);
      left_.insert(rank.incarnation);
      names_.ForgetLost([this](uint64_t who) { return left_.contains(who); });
      Answer(names_.ForgetUnheld());
    } else {
      ADD_FAILURE() << "rank " << rank.number << " says something else";
    }
  }
  void Answer(const protocol::Declarations::Answers& answers) {
    for (const protocol::Declarations::Answer& answer : answers) {
      if (answer.to == protocol::Declarations::kServers) {
        const auto* forgotten = std::get_if<wire::Forgotten>(&answer.message);
        if (forgotten != nullptr) events_.forget(forgotten->tensors);
        continue;
      }
      if (left_.contains(answer.to)) continue;
      events_.say(static_cast<uint32_t>(answer.to - 1), answer.message);
    }
  }

  const Events events_;
  protocol::Declarations names_;
  std::vector<std::deque<wire::Message>> heard_;  // by rank
  std::set<uint64_t> left_;
};

}  // namespace byteps::machine
