// Helpers of the unit tests of the shard's parts: views with contributors, and a shard's state
// without a shard.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "src/protocol/kernel_arithmetic.h"
#include "src/protocol/shard/shard_for_test.h"
#include "src/protocol/shard/shard_state.h"

namespace byteps::protocol {

// Returns a view with one server. Contributor `i` speaks for ranks[i] ranks, numbered on.
inline wire::View ViewOfContributors(const std::vector<uint32_t>& ranks) {
  wire::View view = ViewFor(0, 1);
  uint32_t rank = 0;
  for (Slot slot = 0; slot < ranks.size(); ++slot) {
    for (uint32_t i = 0; i < ranks[slot]; ++i, ++rank) {
      view.workers.push_back({slot, rank, 100 + rank, "h", rank, i, ranks[slot]});
    }
  }
  return view;
}

// Makes the next view, without this contributor.
inline void Lose(wire::View& view, Slot slot) {
  ++view.epoch;
  std::vector<wire::WorkerInfo> stay;
  for (wire::WorkerInfo& worker : view.workers) {
    (worker.slot == slot ? view.gone : stay).push_back(worker);
  }
  view.workers = std::move(stay);
}

inline std::vector<std::byte> BitmapOf(const std::vector<uint32_t>& numbers) {
  SlotSet set;
  for (uint32_t number : numbers) set.Insert(number);
  std::vector<std::byte> bitmap(set.bitmap_bytes());
  set.ToBitmap(bitmap);
  return bitmap;
}

inline wire::DataHeader PushOf(const wire::PieceRef& ref, uint32_t bytes,
                               Combine combine = Combine::kSum) {
  wire::DataHeader header;
  header.ref = ref;
  header.epoch = header.generation = 1;
  header.combine = combine;
  header.dtype = DataType::kUint8;
  header.piece_bytes = header.encoded_bytes = header.want_bytes = bytes;
  return header;
}

// The state of a shard. A test uses one part of it, and looks at the others.
struct Room {
  explicit Room(const wire::View& begun = ViewFor(3, 1), const ShardOptions& options = {})
      : state(options, pool, arithmetic, driver) {
    state.facts.now = kStart;
    SetView(begun);
  }

  void SetView(const wire::View& now_in_force) { state.SetView(now_in_force, 0); }

  // Adds a whole contribution, without a decision.
  void Arrive(Piece& piece, Slot from, const std::string& text, uint32_t want_bytes) {
    wire::DataHeader header = PushOf(piece.round->ref(), piece.round->piece_bytes());
    header.combine = piece.round->combine();
    header.dtype = piece.round->dtype();
    header.want_bytes = want_bytes;
    BufferRef keep;
    ByteSpan place = piece.round->PlaceOf(from, header, text.size(), pool, keep);
    auto bytes = std::as_bytes(std::span(text));
    std::copy(bytes.begin(), bytes.end(), place.begin());
    piece.round->Arrive(from, header, text.size(), members.IsPresent(from));
  }
  Piece& Open(const wire::PieceRef& ref, uint32_t bytes, Combine combine = Combine::kSum,
              uint32_t set = 0) {
    wire::DataHeader header = PushOf(ref, bytes, combine);
    header.process_set = set;
    return Open(header);
  }
  // Opens the round of this first push.
  Piece& Open(const wire::DataHeader& header) {
    Piece& piece = pieces.At(header.ref, 0, view.began());
    ProcessSet* set = sets.For(FirstTeller(header.process_set), header.process_set);
    EXPECT_TRUE(rounds.Open(piece, *set, header).ok());
    return piece;
  }
  // Decides a piece of four bytes. Contributors 0, 1, ... have pushed it. `want_bytes`: the bytes
  // that each of them wants.
  Piece& Decide(TensorId tensor, const std::vector<uint32_t>& want_bytes = {4, 4, 4}) {
    Piece& piece = Open({tensor, 0, 1}, 4);
    for (Slot slot = 0; slot < want_bytes.size(); ++slot) {
      Arrive(piece, slot, "aaaa", want_bytes[slot]);
    }
    rounds.DecideIfPossible(piece);
    return piece;
  }
  // Returns the members that were sent an answer, in that order.
  std::vector<Slot> Answered() const {
    std::vector<Slot> slots;
    for (const SentAnswer& answer : driver.answers) slots.push_back(answer.to);
    return slots;
  }

  Slot FirstTeller(uint32_t set) const {
    return set == 0 ? 0 : sets.Find(set)->tellers().List().front();
  }

  BufferPool pool;
  KernelArithmetic arithmetic;
  RecordingShardDriver driver;
  ShardState state;
  // The parts of the state, under their own names.
  ShardView& view = state.facts.view;
  Members& members = state.facts.members;
  ProcessSets& sets = state.facts.sets;
  PieceTable& pieces = state.facts.pieces;
  Attendance& attendance = state.facts.attendance;
  Answers& answers = state.answers;
  Combiner& combiner = state.combiner;
  Wants& wants = state.wants;
  Rounds& rounds = state.rounds;
};

}  // namespace byteps::protocol
