// How close the protocol comes to the lower bound with many machines, in virtual time.
#pragma once

#include <cstdint>
#include <string>

namespace byteps::sim {

// Prints a table for n workers up to `workers_max` and k = n, n/2 and 0 servers of their own;
// returns 1 when a cell is above 1.05. Writes JSON to `json_path` unless empty.
// `credit_bytes`: of each worker, 0 = as the product chooses.
int RunScale(uint32_t workers_max, uint64_t credit_bytes, const std::string& json_path);

}  // namespace byteps::sim
