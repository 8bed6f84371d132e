#include "src/device/communicator.h"

namespace byteps::device {

bool AreEqualRuns(const std::vector<GroupRun>& runs, uint32_t size) {
  if (runs.size() != size) return false;
  for (uint32_t rank = 0; rank < size; ++rank) {
    const GroupRun expected{rank, runs[0].first + rank * runs[0].bytes, runs[0].bytes};
    if (runs[rank] != expected) return false;
  }
  return true;
}

}  // namespace byteps::device
