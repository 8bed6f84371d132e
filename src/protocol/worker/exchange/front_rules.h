// The decisions of a front about the memory of its users. Tests replace one rule by a wrong one and
// show that a check notices. The library has only these rules.
#pragma once

#include <algorithm>
#include <vector>

namespace byteps::protocol {

class FrontRules {
 public:
  virtual ~FrontRules() = default;

  // An operation may end when every lane has let go of its memory. `released`: by lane.
  virtual bool MayEnd(const std::vector<bool>& released) const {
    return std::all_of(released.begin(), released.end(), [](bool one) { return one; });
  }

  // Rule 17: a rank lets go of a tensor only after a use that ended well.
  virtual bool MayLetGo(bool ended_well) const { return ended_well; }
  // Rule 17: a rank that has let go of a tensor asks before its next use.
  virtual bool AsksAgain(bool has_let_go) const { return has_let_go; }
  // Rule 17: when a lifetime is over, its uses count from 1 again.
  virtual bool CountsAnew() const { return true; }
  // Rule 17: a rank tells a restarted coordinator which tensors it has let go of.
  virtual bool TellsLetGo(bool has_let_go) const { return has_let_go; }
};

inline const FrontRules kFrontRules;

}  // namespace byteps::protocol
