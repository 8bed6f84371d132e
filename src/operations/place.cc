#include "src/operations/place.h"

#include <algorithm>
#include <map>

namespace byteps::operations {

uint32_t Place::RunOf(uint32_t place) const {
  uint32_t number = 0;
  for (uint32_t next = 1; !turns.empty() && next <= place; ++next) {
    if (turns[next] != turns[next - 1] + 1) ++number;
  }
  return number;
}

uint32_t Place::RunCount() const { return count() == 0 ? 0 : RunOf(count() - 1) + 1; }

PlaceRun Place::Run(uint32_t number) const {
  if (turns.empty()) return {0, count()};
  PlaceRun run;
  for (uint32_t place = 0, current = 0; place < count(); ++place) {
    if (place > 0 && turns[place] != turns[place - 1] + 1) ++current;
    if (current < number) run.begin = place + 1;
    if (current <= number) run.end = place + 1;
  }
  return run;
}

std::vector<uint32_t> TurnsByContributor(std::span<const Slot> slots) {
  std::map<Slot, uint32_t> first;  // place of each contributor
  std::vector<uint32_t> places(slots.size());
  for (uint32_t place = 0; place < slots.size(); ++place) {
    first.try_emplace(slots[place], place);
    places[place] = place;
  }
  std::ranges::stable_sort(places, {}, [&](uint32_t place) { return first.at(slots[place]); });
  if (std::ranges::is_sorted(places)) return {};
  std::vector<uint32_t> turns(places.size());
  for (uint32_t turn = 0; turn < places.size(); ++turn) turns[places[turn]] = turn;
  return turns;
}

}  // namespace byteps::operations
