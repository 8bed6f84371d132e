// Tells how many workers each machine of a job has, and which ranks they have by default: the first
// machine has the first ranks, and so on. All code that turns machines into ranks asks this class.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace byteps {

// A value.
class MachineLayout {
 public:
  // Describes one machine with one worker.
  MachineLayout() = default;
  // Takes the number of workers of each machine. REQUIRES: there is at least one number, and none
  // is 0.
  explicit MachineLayout(std::vector<uint32_t> sizes);
  // REQUIRES: neither is 0.
  static MachineLayout Equal(uint32_t machines, uint32_t size);

  uint64_t machines() const { return machines_; }
  uint64_t workers() const { return FirstRank(machines_); }
  // Returns whether all machines have the same number of workers.
  bool IsEqual() const { return sizes_.size() == 1; }
  // REQUIRES: `machine` is below machines().
  uint32_t SizeOf(uint64_t machine) const { return IsEqual() ? sizes_.front() : sizes_[machine]; }
  uint32_t largest() const;
  // Returns the rank of a machine's first worker; for machines(), the number of all workers.
  uint64_t FirstRank(uint64_t machine) const;
  // Returns one size for all machines if they are equal, otherwise one size per machine.
  const std::vector<uint32_t>& sizes() const { return sizes_; }

  // Returns "2 machines with 4 workers each" or "machines with 2,1 workers"; only the beginning of
  // a long list.
  std::string Text() const;

  friend bool operator==(const MachineLayout&, const MachineLayout&) = default;

 private:
  uint64_t machines_ = 1;
  std::vector<uint32_t> sizes_ = {1};
};

}  // namespace byteps
