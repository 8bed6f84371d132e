// A verdict that a member tells: of a piece that another shard decided, or that this one decided
// and the member was not yet told to be stable.
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

  // The receipt and the content fit the payload. REQUIRED by all others.
  bool IsWhole() const;
  // Its sender wanted nothing of the piece, so it has only the receipt.
  bool IsEmpty() const;
  bool IsError() const { return header.status != StatusCode::kOk; }
  // Who is in it; null: everybody of the sender's view.
  Receipt receipt() const;
  ConstByteSpan content() const {
    return ConstByteSpan(payload.data(), payload_bytes).subspan(header.receipt);
  }
  // The content in a buffer of its own.
  BufferRef CopyOfContent(BufferPool& pool, Arithmetic& arithmetic) const;
  // REQUIRES: IsError().
  wire::ErrorRow errors() const;
};

}  // namespace byteps::protocol
