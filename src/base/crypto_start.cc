#include "src/base/crypto_start.h"

#include <openssl/crypto.h>

namespace byteps {

// OpenSSL does the rest of its start by itself. A failure shows in the calls that follow.
void StartCrypto() { OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr); }

}  // namespace byteps
