// The payload of an error verdict. A row keeps the errors of consecutive rounds of a piece
// together, so that nobody waits for a member that hangs. Each round keeps its own error, so that
// all ranks report the same error for the same operation. docs/wire-format.md is the specification.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/base/types.h"

namespace byteps::wire {

// A longer text is cut. In a longer row the oldest errors are replaced by the error that follows
// them.
inline constexpr size_t kErrorTextBytesMax = 2048;
inline constexpr size_t kErrorRowBytesMax = 8192;

// A value; one thread at a time.
class ErrorRow {
 public:
  bool empty() const { return errors_.empty(); }
  void Clear() { errors_.clear(); }
  // Adds the error of `round`. REQUIRES: the round is later than all rounds of the row; `why` is an
  // error.
  void Add(uint64_t round, const Status& why);
  // Returns the error of `round`; null before the row. A round after the row gets its last error.
  const Status* Of(uint64_t round) const;

  // Encodes the row as it was when `round` was its last. REQUIRES: Of(round) != nullptr.
  std::vector<std::byte> Encode(uint64_t round) const;
  // Decodes the row of a verdict of `round`. kProtocol: no correct peer sends these bytes.
  static Result<ErrorRow> Decode(ConstByteSpan bytes, uint64_t round);

 private:
  struct Error {
    uint64_t from = 0;  // the first round with this error; later ones have it until the next error
    Status why;
  };
  size_t bytes() const;

  std::vector<Error> errors_;  // oldest first
};

}  // namespace byteps::wire
