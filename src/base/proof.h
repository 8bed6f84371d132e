// Proofs that a peer knows the job's secret, without showing it.
//
// Both ends of a connection send a fresh random nonce and then a Proof. The Proof covers the bytes
// of the hello, which hold the initiator's nonce, and the acceptor's nonce. Each end has a
// `purpose` of its own (src/runtime/handshake.cc), so that no proof can be replayed or reflected.
// Thread-safe: no state.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "src/base/types.h"

namespace byteps {

using ProofBytes = std::array<std::byte, 32>;

// HMAC-SHA256 (RFC 2104). If the crypto library cannot compute it, the bytes are random: they
// match nothing, and the peer is refused.
ProofBytes HmacSha256(ConstByteSpan key, ConstByteSpan message);

// HMAC-SHA256 with `secret` as the key over the three fields, each with its length in front, so
// that bytes cannot move from one field to the next. An empty secret is allowed: the proof then
// only shows that both ends mean the same purpose, `a` and `b`.
ProofBytes Proof(std::string_view secret, std::string_view purpose, ConstByteSpan a,
                 ConstByteSpan b);

// Compares two proofs. Takes the same time wherever the two differ.
bool ProofEqual(const ProofBytes& left, const ProofBytes& right);

// Does the same for a proof as it came from a peer; false if it is not 32 bytes long.
bool ProofEqual(const ProofBytes& expected, ConstByteSpan received);

// Fills `bytes` from the kernel's random generator, fit for nonces and secrets. May block early in
// the boot of a machine until the kernel has gathered randomness.
void RandomBytes(ByteSpan bytes);

// Returns a random number that tells two lives of one process apart; never 0.
uint64_t RandomIncarnation();

}  // namespace byteps
