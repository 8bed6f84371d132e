#include "src/protocol/shard/state/told_verdict.h"

#include <memory>
#include <utility>

namespace byteps::protocol {

bool ToldVerdict::IsWhole() const {
  if (header.receipt > payload_bytes) return false;
  uint32_t content = header.codec == 0 ? header.piece_bytes : header.encoded_bytes;
  return IsError() || IsEmpty() || uint64_t{header.receipt} + content == payload_bytes;
}

bool ToldVerdict::IsEmpty() const {
  return !IsError() && header.piece_bytes > 0 && header.want_bytes == 0 &&
         payload_bytes == header.receipt;
}

Receipt ToldVerdict::receipt() const {
  if (header.receipt == 0) return nullptr;
  ConstByteSpan bitmap(payload.data(), header.receipt);
  return std::make_shared<SlotSet>(SlotSet::FromBitmap(bitmap));
}

BufferRef ToldVerdict::CopyOfContent(BufferPool& pool, Arithmetic& arithmetic) const {
  if (header.receipt == 0) return payload;
  BufferRef copy = pool.Take(content().size());
  arithmetic.Copy(copy.data(), content().data(), content().size());
  return copy;
}

wire::ErrorRow ToldVerdict::errors() const {
  Result<wire::ErrorRow> row = wire::ErrorRow::Decode(content(), header.ref.round);
  if (row.ok()) return std::move(row).value();
  wire::ErrorRow unknown;
  unknown.Add(header.ref.round, {header.status, "no reason was given"});
  return unknown;
}

}  // namespace byteps::protocol
