// A shard's state, for tests of the functions that take what members say.
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
    Status placed = PlacePush(room.state, from, incoming);
    fate = incoming.fate;
    if (!placed.ok()) return placed;
    Fill(incoming, text);
    TakePush(room.state, from, incoming);
    return placed;
  }
  Status Tell(Slot from, wire::DataHeader header, const std::string& text) {
    Incoming incoming;
    incoming.header = header;
    incoming.payload_bytes = text.size();
    Status placed = PlaceToldVerdict(room.state, from, incoming);
    fate = incoming.fate;
    if (!placed.ok()) return placed;
    Fill(incoming, text);
    TakeToldVerdict(room.state, from, incoming);
    return placed;
  }
  Status Abort(Slot from, wire::DataHeader header, const std::string& why,
               StatusCode code = StatusCode::kDeadlineExceeded) {
    header.status = code;
    return TakeAbort(room.state, from, header, why);
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

  Room room{SinceTwo(), ShardOptions{.piece_bytes_max = 4096}};
  Fate fate = Fate::kDropped;
};

}  // namespace byteps::protocol
