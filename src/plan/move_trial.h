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

class MoveTrial {
 public:
  // What is known is forgotten.
  void Forget() { *this = {}; }

  // Pieces move away from these shares, with which the job exchanged `pace` bytes of tensors per
  // second in its best series, because a round seems to become faster by `gain`.
  void Begin(std::vector<double> shares, double pace, double gain);

  // A series with the shares in force is complete; `pace` is the job's in it. The shares
  // to go back to, if the last move did not pay.
  std::optional<std::vector<double>> Observe(double pace);

  // Whether pieces may move.
  bool MayMove() const { return before_.empty() && waits_ == 0; }

 private:
  bool HasChanged(double pace);

  // The move that is on trial.
  std::vector<double> before_;  // empty: none
  double wanted_ = 0;           // the pace that shows that it pays
  uint32_t series_ = 0;

  // Since the last one that did not pay.
  double pace_ = 0;       // of the job before it
  uint32_t waits_ = 0;    // series until the next move
  uint32_t slow_ = 0;     // series one after the other that were much slower than `pace_`
  uint32_t in_vain_ = 0;  // moves one after the other that did not pay
};

}  // namespace byteps::plan
