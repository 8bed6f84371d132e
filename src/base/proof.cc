#include "src/base/proof.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include "src/base/crypto_start.h"

namespace byteps {
namespace {

void AppendField(ConstByteSpan field, std::vector<std::byte>& message) {
  const uint64_t length = field.size();
  for (int shift = 0; shift < 64; shift += 8) {
    message.push_back(static_cast<std::byte>(length >> shift));
  }
  message.insert(message.end(), field.begin(), field.end());
}

ConstByteSpan BytesOf(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace

ProofBytes HmacSha256(ConstByteSpan key, ConstByteSpan message) {
  StartCrypto();
  ProofBytes digest;
  unsigned length = 0;
  // OpenSSL gives a null pointer a meaning of its own, so an empty span needs an address.
  const unsigned char nothing = 0;
  const void* key_data = key.empty() ? &nothing : static_cast<const void*>(key.data());
  const auto* message_data =
      message.empty() ? &nothing : reinterpret_cast<const unsigned char*>(message.data());
  const bool done =
      HMAC(EVP_sha256(), key_data, static_cast<int>(key.size()), message_data, message.size(),
           reinterpret_cast<unsigned char*>(digest.data()), &length) != nullptr;
  if (!done || length != digest.size()) RandomBytes(digest);
  return digest;
}

ProofBytes Proof(std::string_view secret, std::string_view purpose, ConstByteSpan a,
                 ConstByteSpan b) {
  std::vector<std::byte> message;
  message.reserve(3 * sizeof(uint64_t) + purpose.size() + a.size() + b.size());
  AppendField(BytesOf(purpose), message);
  AppendField(a, message);
  AppendField(b, message);
  return HmacSha256(BytesOf(secret), message);
}

bool ProofEqual(const ProofBytes& left, const ProofBytes& right) {
  return CRYPTO_memcmp(left.data(), right.data(), left.size()) == 0;
}

bool ProofEqual(const ProofBytes& expected, ConstByteSpan received) {
  return received.size() == expected.size() &&
         CRYPTO_memcmp(expected.data(), received.data(), expected.size()) == 0;
}

void RandomBytes(ByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t count = getrandom(bytes.data(), bytes.size(), 0);
    if (count > 0) {
      bytes = bytes.subspan(static_cast<size_t>(count));
    } else if (errno != EINTR) {
      // Only a kernel or a sandbox without the call leads here; no peer and no user can.
      // Predictable bytes would open the job to strangers, so the process ends.
      std::perror("byteps: the kernel gives no random bytes (getrandom)");
      std::abort();  // tidy-allow(exit): see above
    }
  }
}

uint64_t RandomIncarnation() {
  uint64_t incarnation = 0;
  while (incarnation == 0) {
    RandomBytes(std::as_writable_bytes(std::span(&incarnation, 1)));
  }
  return incarnation;
}

}  // namespace byteps
