// How many workers each machine of a job has, and which ranks they have unless somebody tells them
// other ones: the first machine has the first ranks, and so on. Everything that turns machines into
// ranks asks here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace byteps {

// A value.
class MachineLayout {
 public:
  // One machine with one worker.
  MachineLayout() = default;
  // A number for each machine. REQUIRES: there is one, and none is 0.
  explicit MachineLayout(std::vector<uint32_t> sizes);
  // REQUIRES: neither is 0.
  static MachineLayout Equal(uint32_t machines, uint32_t size);

  uint64_t machines() const { return machines_; }
  uint64_t workers() const { return FirstRank(machines_); }
  // Whether all machines have the same number of workers.
  bool IsEqual() const { return sizes_.size() == 1; }
  // REQUIRES: `machine` is below machines().
  uint32_t SizeOf(uint64_t machine) const { return IsEqual() ? sizes_.front() : sizes_[machine]; }
  uint32_t largest() const;
  // The rank of a machine's first worker; the number of workers for machines().
  uint64_t FirstRank(uint64_t machine) const;
  // One for all machines if they are equal, else one for each.
  const std::vector<uint32_t>& sizes() const { return sizes_; }

  // "2 machines with 4 workers each", "machines with 2,1 workers"; of long lists the beginning.
  std::string Text() const;

  friend bool operator==(const MachineLayout&, const MachineLayout&) = default;

 private:
  uint64_t machines_ = 1;
  std::vector<uint32_t> sizes_ = {1};
};

}  // namespace byteps
