// The rounds that ranks have begun, at the carrier. A round is complete when all ranks that take
// part have begun it. A rank that has joined takes part in nothing but the join, until all have
// joined. A round that cannot be completed any more ends in an error, for the ranks that have begun
// it and for the ranks that begin it later.
//
// A value without I/O; local ranks are the ranks of the job.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/machine/room/round_book.h"
#include "src/machine/serverless/local_words.h"

namespace byteps::machine {

// A round that all ranks that take part have begun.
struct CompleteRound {
  LocalFacts facts;
  RankSet ranks = 0;
  uint32_t last = 0;             // the rank that began it last
  std::vector<SmallPart> parts;  // by rank
  RankSet on_device = 0;         // ranks that can launch
};

class LocalRounds {
 public:
  struct Events {
    // All ranks that take part have begun the round. True: it is over at once. False: its ranks get
    // bytes, or OnOver follows.
    std::function<bool(const RoundKey&, const CompleteRound&)> complete;
    // The round, which is complete, shall end in an error. False: it will end in order, because
    // some rank may have a part of the result already.
    std::function<bool(const RoundKey&)> break_off;
    // The round has ended with this error, for these ranks, each of which has begun it.
    std::function<void(const RoundKey&, RankSet, const Status&)> failed;
    // Asked before `complete`, without the parts. True: the round waits for LookAtAll. Null: none
    // waits.
    std::function<bool(const CompleteRound&)> waits = nullptr;
  };
  explicit LocalRounds(Events events) : events_(std::move(events)) {}

  void OnBegun(uint32_t rank, const Begun& begun);
  void OnJoined(uint32_t rank);
  void OnAbort(uint32_t rank, const Abort& abort);
  void OnLeft(uint32_t rank);
  // The ranks disagree about this tensor from this use on. Forgets its rounds that are not
  // complete, because each rank withdraws its own.
  void Retire(TensorId tensor, uint64_t use);
  // All ranks have let go of the tensor.
  void Forget(TensorId tensor) { book_.Forget(tensor); }
  // A complete round is over in order.
  void OnOver(const RoundKey& key) { book_.Erase(key); }
  // Rounds that had to wait may be complete now.
  void LookAtAll();

  RankSet left() const { return book_.left(); }
  // Returns whether an error is kept for ranks that begin its round later.
  bool KeepsErrors() const { return errors_ != 0; }

 private:
  struct State {
    LocalFacts facts;
    std::vector<SmallPart> parts;  // by rank
    RankSet on_device = 0;
    Status failure;
  };
  using Book = RoundBook<State>;
  using Round = Book::Round;

  void Look(const RoundKey& key);
  void Fail(const RoundKey& key, Round& round, const Status& why);
  void Erase(const RoundKey& key, const Round& round);

  const Events events_;
  Book book_;
  size_t errors_ = 0;  // rounds with a failure
};

}  // namespace byteps::machine
