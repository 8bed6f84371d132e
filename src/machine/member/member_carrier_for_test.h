// The carrier of a machine of two ranks, for tests. The test plays the ranks and the lane.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/machine/machine_for_test.h"
#include "src/machine/member/member_carrier.h"

namespace byteps::machine {

inline constexpr RoundKey kMemberRound = {5, 1, 0};
inline constexpr uint32_t kMemberRanks = 2;

inline local::WindowShape MemberShape() {
  local::WindowShape shape;
  shape.ranks = kMemberRanks;
  shape.block_bytes = 1024;
  return shape;
}

// Tests ranks 2 and 3 of a job of four, with one lane.
class MemberCarrierTest : public testing::Test {
 protected:
  // `left`: a rank of the job that has left.
  static protocol::to_lane::View View(uint64_t epoch = 1,
                                      std::optional<uint32_t> left = std::nullopt) {
    auto view = std::make_shared<wire::View>();
    view->epoch = epoch;
    view->generation = view->began = 1;
    for (uint32_t rank = 0; rank < 4; ++rank) {
      wire::WorkerInfo worker;
      worker.rank = rank;
      worker.slot = rank / 2 * 2;
      worker.local_rank = rank % 2;
      worker.left = rank == left;
      view->workers.push_back(worker);
    }
    wire::ServerInfo server;
    server.shard_weights = {1};
    view->servers.push_back(server);
    return {view, 2};
  }
  static member::Begun BegunWord(RankSet ranks = 0b11, Combine how = Combine::kSum) {
    member::Begun begun;
    begun.key = kMemberRound;
    begun.facts.name = "w";
    begun.facts.ranks = ranks;
    begun.facts.how = how;
    begun.facts.pieces = {{3, 1024, 0, 1024, 0, 1024}, {1, 16, 0, 16, 0, 16}};
    begun.facts.homes = {0, 0, 0, 0};
    begun.push_bytes = 1024;
    return begun;
  }
  // Returns the last exchange that the lane was told of; null: none.
  const protocol::Exchange* Exchange() {
    const protocol::Exchange* last = nullptr;
    for (const protocol::LaneMail& mail : mails) {
      if (const auto* begin = std::get_if<protocol::to_lane::Begin>(&mail)) last = begin->exchange;
    }
    return last;
  }
  // Returns how many words of one kind the lane was told.
  template <typename Kind>
  size_t CountMails() {
    return static_cast<size_t>(std::ranges::count_if(
        mails, [](const protocol::LaneMail& mail) { return std::holds_alternative<Kind>(mail); }));
  }
  size_t CountAborts() { return CountMails<protocol::to_lane::Abort>(); }
  void EndExchange(const Status& how) {
    protocol::to_front::PartDone part;
    part.serial = Exchange()->serial;
    part.tensor = kMemberRound.tensor;
    part.pieces = 4;
    part.status = how;
    auto receipt = std::make_shared<SlotSet>();
    receipt->Insert(2);
    part.receipt = receipt;
    carrier.OnMail(part);
  }
  // Returns the words of one kind that a rank was told.
  template <typename Kind>
  std::vector<Kind> ToldTo(uint32_t rank) {
    std::vector<Kind> all;
    for (const auto& [to, word] : told) {
      const auto* one = std::get_if<Kind>(&word);
      if (to == rank && one != nullptr) all.push_back(*one);
    }
    return all;
  }

  WindowForTest window{MemberShape()};
  BlockTransfers transfers{window.of(0)};
  std::vector<protocol::LaneMail> mails;
  std::vector<std::pair<uint32_t, MemberWords::ToRank>> told;
  std::vector<Status> failures;
  int plans = 0;
  std::vector<std::string> lines;
  MemberCarrier carrier{
      kMemberRanks,
      1,
      MemberShape().block_bytes,
      transfers,
      {[this](uint32_t, protocol::LaneMail mail) { mails.push_back(std::move(mail)); },
       [this](uint32_t rank, const MemberWords::ToRank& word) { told.emplace_back(rank, word); },
       [](protocol::FrontMail) {}, [this](const Status& why) { failures.push_back(why); },
       [this](const std::vector<HasDevice>&) { ++plans; },
       [this](const std::string& line, bool) { lines.push_back(line); }}};
};

}  // namespace byteps::machine
