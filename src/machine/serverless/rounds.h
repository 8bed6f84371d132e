// Who has begun which rounds, at the carrier: a round is complete when the last of its ranks that
// take part has begun it. A rank that has joined takes part in nothing but the join, until all have
// joined. A round that cannot be completed any more ends in an error, for the ranks that have begun
// it and for those that begin it later.
//
// A value without I/O; local ranks are the ranks of the job.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/machine/room/words.h"
#include "src/wire/join_word.h"

namespace byteps::machine {

// What all ranks that take part have begun.
struct CompleteRound {
  RoundFacts facts;
  RankSet ranks = 0;
  uint32_t last = 0;             // who has begun it as the last one
  std::vector<SmallPart> parts;  // by rank
};

class Rounds {
 public:
  struct Events {
    // All that take part have begun it. True: it is over at once. Else its ranks get bytes, or
    // OnOver follows.
    std::function<bool(const RoundKey&, const CompleteRound&)> complete;
    // The round of these ranks, which is complete, shall end in an error. False: it will end in
    // order, because some rank may have a part of the result already.
    std::function<bool(const RoundKey&)> break_off;
    // To these ranks, each of which has begun the round: it has ended so.
    std::function<void(const RoundKey&, RankSet, const Status&)> failed;
  };
  explicit Rounds(Events events) : events_(std::move(events)) {}

  void OnBegun(uint32_t rank, const Begun& begun);
  void OnJoined(uint32_t rank);
  void OnAbort(uint32_t rank, const Abort& abort);
  void OnLeft(uint32_t rank);
  // The ranks disagree about this tensor from this use on: its rounds that are not complete are
  // forgotten, for each rank withdraws its own.
  void Retire(TensorId tensor, uint64_t use);
  // All ranks have let go of it.
  void Forget(TensorId tensor) { retired_.erase(tensor); }
  // A complete round is over in order.
  void OnOver(const RoundKey& key) { rounds_.erase(key); }

  RankSet left() const { return left_; }
  // Whether an error is kept for ranks that begin its round later.
  bool KeepsErrors() const { return errors_ != 0; }

 private:
  struct Round {
    RoundFacts facts;
    RankSet begun = 0;
    wire::LastToJoin last;
    std::vector<SmallPart> parts;  // by rank
    bool is_complete = false;
    Status failure;
  };
  using Place = std::map<RoundKey, Round>::iterator;

  RankSet Missing(const Round& round) const;
  void Look(Place place);
  void LookAtAll();
  void Fail(Place place, const Status& why);
  void Erase(Place place);

  const Events events_;
  std::map<RoundKey, Round> rounds_;
  std::map<TensorId, uint64_t> retired_;  // from which use on
  RankSet joined_ = 0;
  RankSet left_ = 0;
  size_t errors_ = 0;  // rounds with a failure
};

}  // namespace byteps::machine
