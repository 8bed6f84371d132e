// Judges a move of pieces by what the job does after it: rates are estimates, and a move that was
// made because of a wrong one slows the job down. Then the pieces move back, and for a while
// nothing moves, unless the job itself changes.
//
// Pure: time is counted in series of samples (placement_keeper.h). A value; one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace byteps::plan {

// Bytes of tensors per second; 0: nothing is known.
struct Pace {
  // While the credit is used up. Much is seen there, and soon.
  double full = 0;
  // Of whole bursts (exchange_meter.h). What a move brings that promises little is seen only there:
  // a server that is a little too slow lets the others wait at the end of a step.
  double bursts = 0;
};

// What promises more than this is no guess, and is seen at any time.
inline constexpr double kMuch = 1.4;
// After so many series in which no burst has ended the pace between the ends must do.
inline constexpr uint32_t kSeriesWithoutBursts = 12;

class MoveTrial {
 public:
  // What is known is forgotten.
  void Forget() { *this = {}; }

  // Pieces move away from these shares, with which `pace` was the job's best, because a round seems
  // to become faster by `gain`. `is_known`: if that is wrong nothing is known, and nothing moves
  // for a while.
  void Begin(std::vector<double> shares, const Pace& pace, double gain, bool is_known = true);

  // A series with the shares in force is complete; `pace` is the job's in it. The shares
  // to go back to, if the last move did not pay.
  std::optional<std::vector<double>> Observe(const Pace& pace);

  // Whether pieces may move.
  bool MayMove() const { return before_.empty() && !(waits() && is_known_); }
  // What was wrong about the last move is known now. Not believed twice in a row.
  void EndWait() {
    if (in_vain_ == 1) waits_ = 0;
  }
  // The last move was in vain not long ago.
  bool waits() const { return waits_ > 0; }
  // The last series has shown that the last move was right.
  bool has_paid() const { return has_paid_; }

 private:
  bool PromisedMuch() const { return gain_ > kMuch; }
  bool HasChanged(const Pace& pace);
  std::optional<double> PartOfBefore(const Pace& pace);
  bool Harms(const Pace& pace) const;

  // The move that is on trial.
  std::vector<double> before_;  // empty: none
  Pace pace_;                   // of the job before it
  double gain_ = 1;             // that was promised
  bool is_known_ = true;
  uint32_t series_ = 0;  // that said something
  uint32_t silent_ = 0;  // and that did not
  bool has_paid_ = false;

  // Since the last one that did not pay.
  uint32_t waits_ = 0;    // series until the next move
  uint32_t slow_ = 0;     // series one after the other that were much slower than `pace_`
  uint32_t in_vain_ = 0;  // moves one after the other that did not pay
};

}  // namespace byteps::plan
