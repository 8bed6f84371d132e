// What a front decides for the memory of its users. Tests replace one rule by a wrong one and show
// that somebody notices; the library has these alone.
#pragma once

#include <algorithm>
#include <vector>

namespace byteps::protocol {

class FrontRules {
 public:
  virtual ~FrontRules() = default;

  // An operation ends when every lane has let go of it. `released`: by lane.
  virtual bool MayEnd(const std::vector<bool>& released) const {
    return std::all_of(released.begin(), released.end(), [](bool one) { return one; });
  }
};

inline const FrontRules kFrontRules;

}  // namespace byteps::protocol
