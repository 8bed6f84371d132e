// Starts OpenSSL in this process.
#pragma once

namespace byteps {

// Must be called before any other function of OpenSSL. Switches off the cleanup of OpenSSL at the
// exit of the process: if a program ends without closing the job, threads of this library may still
// use OpenSSL then. Thread-safe; later calls are cheap.
void StartCrypto();

}  // namespace byteps
