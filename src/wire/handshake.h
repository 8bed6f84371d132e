// The first frames of every connection: hello, challenge, proof, welcome, bound. Both ends prove
// that they hold the job's secret before any other frame is read. docs/wire-format.md has the
// bytes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/proof.h"
#include "src/base/status.h"
#include "src/base/types.h"

namespace byteps::wire {

inline constexpr uint16_t kWireVersion = 3;
inline constexpr size_t kJobIdBytesMax = 128;
using Nonce = std::array<std::byte, 16>;

// The initiator names itself, the job that it believes in, and the process that it wants.
struct Hello {
  uint16_t version = kWireVersion;
  Role role = Role::kWorker;
  Role wanted_role = Role::kCoordinator;
  uint32_t index = kNoSlot;         // slot of a worker; kNoSlot while it has none
  uint32_t wanted_index = 0;        // shard; 0 for the coordinator
  uint64_t incarnation = 0;         // of the initiator
  uint64_t wanted_incarnation = 0;  // 0: any
  uint32_t generation = 0;          // 0 before the first view
  Nonce nonce{};
  std::string job;
  friend bool operator==(const Hello&, const Hello&) = default;
};

// The acceptor's verdict. Its proof covers all frames of the handshake, this welcome included. An
// initiator that has not proved anything gets a welcome without a proof.
struct Welcome {
  StatusCode code = StatusCode::kOk;
  uint64_t incarnation = 0;
  ProofBytes proof{};
  std::string text;  // of a refusal
  friend bool operator==(const Welcome&, const Welcome&) = default;
};

inline constexpr size_t kHandshakeBytesMax = 1024;

std::vector<std::byte> EncodeHello(const Hello& hello);
std::vector<std::byte> EncodeWelcome(const Welcome& welcome);
// Read the frames. kProtocol: the bytes are no such frame. A hello of another version decodes as
// far as the fields that every version shares: magic and version.
Result<Hello> DecodeHello(ConstByteSpan bytes);
Result<Welcome> DecodeWelcome(ConstByteSpan bytes);

}  // namespace byteps::wire
