// A verdict that a member tells. Another shard decided the piece, or this shard decided it and has
// not told the member that the verdict is stable.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/buffer_pool.h"
#include "src/base/slot_set.h"
#include "src/base/status.h"
#include "src/protocol/arithmetic.h"
#include "src/wire/data.h"
#include "src/wire/error_row.h"

namespace byteps::protocol {

// The frame as it came: the bitmap of the receipt, if there is one, and then the content.
struct ToldVerdict {
  const wire::DataHeader& header;
  const BufferRef& payload;
  size_t payload_bytes = 0;

  // Returns whether the receipt and the content fit the payload. All other methods REQUIRE this.
  bool IsWhole() const;
  // Returns whether the sender wanted nothing of the piece, so that it has only the receipt.
  bool IsEmpty() const;
  bool IsError() const { return header.status != StatusCode::kOk; }
  // Returns the members in the verdict; null: all members of the sender's view.
  Receipt receipt() const;
  ConstByteSpan content() const {
    return ConstByteSpan(payload.data(), payload_bytes).subspan(header.receipt);
  }
  // Returns the content in a buffer of its own.
  BufferRef CopyOfContent(BufferPool& pool, Arithmetic& arithmetic) const;
  // REQUIRES: IsError().
  wire::ErrorRow errors() const;
};

}  // namespace byteps::protocol
