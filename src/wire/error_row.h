// The payload of an error verdict. Rounds of a piece that end in errors one after the other are
// kept together, so that nobody waits for a member that hangs; each keeps its own error all the
// same, so that all ranks say the same of the same operation. docs/wire-format.md is the
// specification.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/base/types.h"

namespace byteps::wire {

// Longer texts are cut, and of a row that is longer the oldest errors are told as the next one.
inline constexpr size_t kErrorTextBytesMax = 2048;
inline constexpr size_t kErrorRowBytesMax = 8192;

// One thread at a time.
class ErrorRow {
 public:
  bool empty() const { return errors_.empty(); }
  void Clear() { errors_.clear(); }
  // `round` ended like this. REQUIRES: it is later than all rounds of the row; `why` is an error.
  void Add(uint64_t round, const Status& why);
  // How `round` ended; null before the row. Rounds after the row are told as its last one.
  const Status* Of(uint64_t round) const;

  // The row as it was when `round` was its last. REQUIRES: Of(round) != nullptr.
  std::vector<std::byte> Encode(uint64_t round) const;
  // Of a verdict of `round`. kProtocol: no correct peer sends that.
  static Result<ErrorRow> Decode(ConstByteSpan bytes, uint64_t round);

 private:
  struct Error {
    uint64_t from = 0;  // the first round that ended like this; all did until the next error's
    Status why;
  };
  size_t bytes() const;

  std::vector<Error> errors_;  // oldest first
};

}  // namespace byteps::wire
