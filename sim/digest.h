// Hashes a log: two runs with the same hash have said the same, line by line.
#pragma once

#include <cstdint>
#include <string_view>

namespace byteps::sim {

// Is FNV-1a of 64 bits over all lines, each with its line end.
class LogDigest {
 public:
  void Add(std::string_view line) {
    for (char c : line) AddByte(static_cast<uint8_t>(c));
    AddByte('\n');
  }
  uint64_t value() const { return value_; }

 private:
  void AddByte(uint8_t byte) { value_ = (value_ ^ byte) * 0x100000001b3; }

  uint64_t value_ = 0xcbf29ce484222325;
};

}  // namespace byteps::sim
