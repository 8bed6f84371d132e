#include "src/machine/room/words.h"

#include <bit>

namespace byteps::machine {

std::string RanksText(RankSet ranks) {
  std::string text;
  for (; ranks != 0; ranks &= ranks - 1) {
    text += (text.empty() ? "" : ", ") + std::to_string(std::countr_zero(ranks));
  }
  return text;
}

}  // namespace byteps::machine
