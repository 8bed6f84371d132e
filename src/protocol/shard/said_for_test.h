// A shard's parts up to the reports, for tests of the classes that take what members say.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "src/protocol/shard/contributions.h"
#include "src/protocol/shard/member_reports.h"
#include "src/protocol/shard/room_for_test.h"
#include "src/protocol/shard/told_verdicts.h"

namespace byteps::protocol {

inline wire::View SinceTwo() {
  wire::View view = ViewFor(3, 1);
  view.epoch = 2;
  view.servers[0].since = 2;
  return view;
}

// The shard owns its pieces since epoch 2, so another shard may have decided before.
class SaidTest : public testing::Test {
 protected:
  Status Push(Slot from, wire::DataHeader header, const std::string& text) {
    Incoming incoming;
    incoming.header = header;
    incoming.payload_bytes = text.size();
    Status placed = contributions.Place(from, incoming);
    fate = incoming.fate;
    if (!placed.ok()) return placed;
    Fill(incoming, text);
    contributions.Take(from, incoming);
    return placed;
  }
  Status Tell(Slot from, wire::DataHeader header, const std::string& text) {
    Incoming incoming;
    incoming.header = header;
    incoming.payload_bytes = text.size();
    Status placed = told.Place(from, incoming);
    fate = incoming.fate;
    if (!placed.ok()) return placed;
    Fill(incoming, text);
    told.Take(from, incoming);
    return placed;
  }
  Status Abort(Slot from, wire::DataHeader header, const std::string& why,
               StatusCode code = StatusCode::kDeadlineExceeded) {
    header.status = code;
    return contributions.TakeAbort(from, header, why);
  }
  static void Fill(Incoming& incoming, const std::string& text) {
    auto bytes = std::as_bytes(std::span(text));
    if (!incoming.place.empty()) std::copy(bytes.begin(), bytes.end(), incoming.place.begin());
  }
  static wire::DataHeader Header(uint64_t round, uint32_t bytes = 1) {
    wire::DataHeader header = PushOf({7, 0, round}, bytes);
    header.epoch = 2;
    return header;
  }
  const Piece& piece() { return *room.pieces.Find({7, 0, 1}); }

  Room room{SinceTwo()};
  const ShardRules& rules = ShardRules::Default();
  Contributions contributions{{room.pool, rules, room.view, room.members, room.attendance,
                               room.sets, room.pieces, room.answers, room.rounds}};
  ToldVerdicts told{{room.pool, room.arithmetic, rules, room.view, room.members, room.pieces,
                     room.answers, room.rounds},
                    4096};
  MemberReports reports{{room.view, room.members, room.pieces, room.answers, room.rounds, told}};
  Fate fate = Fate::kDropped;
};

}  // namespace byteps::protocol
