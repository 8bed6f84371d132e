// Shows how close the protocol comes to the lower bound with many machines, in virtual time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace byteps::sim {

struct ScaleOptions {
  uint32_t workers_min = 4;
  uint32_t workers_max = 64;
  std::optional<uint32_t> servers;  // only cells with so many
  double gbit = 10;                 // of every link
  uint32_t piece_bytes_max = 32768;
  uint64_t credit_bytes = 0;  // of each worker; 0: as the product chooses
  std::string json_path;      // also writes the table there, unless empty
};

// Prints a table for n workers, doubling from `workers_min` to `workers_max`, and k = n, n/2 and 0
// servers of their own; returns 1 when a cell is above 1.05.
int RunScale(const ScaleOptions& options);

}  // namespace byteps::sim
